"""Gantry's protocol for policies of your own, in Python without further packages (docs/own-policies.md).

A policy is a class with a method plan, which looks at what Policy knows and starts or plans tasks:

    from base import Policy

    class FirstCome(Policy):
        def plan(self):
            for task in self.waiting():
                for node in self.nodes_for(task):
                    return self.start(task, node)

    FirstCome.main()
"""

import json
import sys

NEVER = float("inf")


class Task:
    """A task as gantry told of it. run, stay: nanoseconds by node, None where it cannot be; stay has its copies, too."""

    def __init__(self, said, nodes):
        self.id, self.kind, self.need = said["id"], said["kind"], said["need"]
        self.name, self.type = said["name"], said["type"]
        self.parents, self.inputs, self.outputs = said["parents"], said["inputs"], said["outputs"]
        self.children, self.state, self.rank = [], said.get("state", "waiting"), said["rank_ns"]
        self.estimate(said["run_ns"], said["run_ns"], nodes)

    def estimate(self, run, stay, nodes):
        self.run = run if isinstance(run, list) else [run] * nodes
        self.stay = stay if isinstance(stay, list) else [stay] * nodes

    def mean(self):
        """The mean run over the nodes that can have it."""
        runs = [r for r in self.run if r is not None]
        return sum(runs) / max(1, len(runs))


class Policy:
    def __init__(self, begin):
        self.params, self.seed, self.nodes = begin["params"], begin["seed"], begin["nodes"]
        self.links, self.overlapped = {(x["from"], x["to"]): x for x in begin["links"]}, begin["overlapped"]
        self.capacity = [n["capacity"] for n in self.nodes]
        self.tasks, self.files, self.workflows = {}, {}, {}
        self.ready, self.running, self.suspended = {}, {}, set()  # running: task to (node, estimated end)
        self.now, self.free, self.told, self.news = 0, [], {}, {}
        self.replan()
        self.begin()

    def begin(self):
        """Called once, when nodes and parameters are known."""

    def plan(self):
        """Called each round. What it returns is the answer; None is what start and the like collected."""

    def ended(self, task, node, ran):
        """Called for each task that ended well: ran nanoseconds on that node."""

    # What a plan may say.

    def start(self, task, node):
        self.answer.setdefault("start", []).append({"task": task.id, "node": node})
        self.free[node] = self.less(self.free[node], task.need)
        self.running[task.id] = (node, self.now + task.stay[node])
        self.ready.pop(task.id, None)

    def plan_on(self, task, node):
        """Plans a task as early as that node can have it, after its parents; not if these or the node are not there."""
        end, start = self.earliest(task, node)
        if end < NEVER and all(p in self.places or self.tasks[p].state == "done" for p in task.parents):
            self.answer.setdefault("plan", []).append({"task": task.id, "node": node})
            self.book(task, node, end, start)

    def replan(self):
        """Forgets the plan: only tasks that run have places."""
        self.answer, self.stays, self.places = {}, [[] for _ in self.nodes], {}
        for task, (node, until) in self.running.items():
            self.book(self.tasks[task], node, max(until, self.now + 1), self.now)

    def book(self, task, node, end, start):
        self.stays[node].append((start, end, task.need))
        self.places[task.id] = (node, end)

    def earliest(self, task, node):
        """When a task ends and starts if that node has it, in the first gap that is long enough; parents have places."""
        start, stay = self.now, task.stay[node]
        if stay is None:
            return NEVER, NEVER
        for parent in (p for p in task.parents if p in self.places):
            there, end = self.places[parent]
            copy = self.copy(self.tasks[parent], task, there, node)
            start, stay = max(start, end + copy * self.overlapped), stay + copy * (not self.overlapped)
        stays = self.stays[node]
        for start in [start] + sorted(e for _, e, _ in stays if e > start):
            used = [n for s, e, n in stays if s < start + max(1, stay) and e > start]
            if self.fits(map(sum, zip(task.need, *used)), self.capacity[node]):
                return start + stay, start
        return NEVER, NEVER

    # What there is.

    def waiting(self):
        """The ready tasks in order of their numbers."""
        return [self.ready[i] for i in sorted(self.ready)]

    def nodes_for(self, task):
        """The nodes that have room for a task now, the one where it would end first in front."""
        fit = [n for n, free in enumerate(self.free) if task.stay[n] is not None and self.fits(task.need, free)]
        return sorted(fit, key=lambda n: (task.stay[n], n))

    def copy(self, parent, child, a, b):
        """The time to copy from node a to node b what child reads of parent."""
        link = self.links.get((self.nodes[a]["group"], self.nodes[b]["group"]))
        if a == b or not link:
            return 0
        return sum(link["latency_ns"] + (self.files[f]["bytes"] * 10**9 // link["bytes_per_s"] if link["bytes_per_s"]
                                         else 0) for f in parent.outputs if f in child.inputs)

    def mean_copy(self, parent, child):
        pairs = [(a, b) for a in range(len(self.nodes)) for b in range(len(self.nodes)) if a != b]
        return sum(self.copy(parent, child, a, b) for a, b in pairs) / max(1, len(pairs))

    def unplaced(self):
        """The tasks that have not ended and have no place, parents before children."""
        return [t for t in self.tasks.values() if t.state in ("waiting", "ready") and t.id not in self.places]

    @staticmethod
    def fits(need, free):
        return all(f is None or n <= f for n, f in zip(need, free))

    @staticmethod
    def less(free, need):
        return [f if f is None else f - n for n, f in zip(need, free)]

    # The protocol.

    def hear(self, said):
        """Takes the news of a round in."""
        self.news, self.now, self.answer = said, said["now_ns"], {}
        self.told.update((f["node"], f["free"]) for f in said.get("free", []))
        self.free = [self.told[n] for n in range(len(self.nodes))]
        for flow in said.get("arrived", []) + said.get("grown", []):
            self.workflows[flow["id"]] = flow
            self.files.update((f["id"], f) for f in flow["files"])
            fresh = [Task(t, len(self.nodes)) for t in flow["tasks"] if t["id"] not in self.tasks]
            self.tasks.update((t.id, t) for t in fresh)
            for task in fresh:
                for p in task.parents:
                    self.tasks[p].children.append(task.id)
        for s in said.get("started", []):
            self.drop(s["task"], "running")
            self.running[s["task"]] = (s["node"], s["until_ns"])
        for e in said.get("finished", []):
            self.drop(e["task"], "done")
            self.ended(self.tasks[e["task"]], e["node"], e["ran_ns"])
        for t in said.get("failed", []):
            self.drop(t, "failed")
        for t in said.get("suspended", []):
            self.drop(t, "suspended")
            self.suspended.add(t)
        for r in said.get("ready", []):
            self.drop(r["task"], "ready")
            task = self.ready[r["task"]] = self.tasks[r["task"]]
            task.rank = r["rank_ns"]
            if r["try"] > 1:
                self.places.pop(task.id, None)  # and with it the children lost theirs
            task.estimate(r["run_ns"], r["stay_ns"], len(self.nodes))
        for c in said.get("changed", []):
            self.capacity[c["node"]] = c["capacity"]

    def drop(self, task, state):
        self.tasks[task].state = state
        self.ready.pop(task, None)
        self.running.pop(task, None)
        self.suspended.discard(task)

    def step(self, said):
        """The answer to the news of a round."""
        self.hear(said)
        answer = self.plan()
        return self.answer if answer is None else answer

    @classmethod
    def main(cls):
        """Talks with gantry until it closes standard input."""
        policy = None
        for line in sys.stdin:
            said = json.loads(line)
            if said["type"] == "begin":
                policy, answer = cls(said), {"protocol": 1}
            else:
                answer = policy.step(said)
            sys.stdout.write(json.dumps(answer, separators=(",", ":")) + "\n")
            sys.stdout.flush()
