#!/usr/bin/env python3
"""PEFT (Arabnejad and Barbosa, IEEE TPDS 25(3), 2014): a table of optimistic costs foresees for each task and node how
long the rest of the workflow takes at least. Plans workflows whole when they arrive, and follows the plan."""

from base import Policy


class PEFT(Policy):
    def plan(self):
        if self.ready.keys() <= self.places.keys() and not {"arrived", "grown", "changed"} & self.news.keys():
            return {"keep": True}
        self.replan()
        left, self.table = self.unplaced(), {}
        while left:
            free = [t for t in left if not any(self.tasks[p] in left for p in t.parents)]
            task = max(free, key=lambda t: (sum(self.costs(t).values()), -t.id))
            self.plan_on(task, min((self.earliest(task, n)[0] + rest, n) for n, rest in self.costs(task).items())[1])
            left.remove(task)

    def costs(self, task):
        """By node: the longest of the shortest ways from the end of a task there to the end of its workflow."""
        if task.id not in self.table:
            children = [self.tasks[c] for c in task.children]
            self.table[task.id] = {n: max((min(rest + child.run[m] + (m != n) * self.mean_copy(task, child)
                                               for m, rest in self.costs(child).items()) for child in children),
                                          default=0) for n, run in enumerate(task.run) if run is not None}
        return self.table[task.id]


if __name__ == "__main__":
    PEFT.main()
