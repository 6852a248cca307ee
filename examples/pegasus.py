"""Writes workflows as Pegasus's Python API does, with embedded catalogs. It needs nothing but Python."""

import json


def scalar(value):
    """A value as YAML; JSON is YAML."""
    return "{" + ", ".join(f"{k}: {scalar(v)}" for k, v in value.items()) + "}" if isinstance(value, dict) else json.dumps(value)


class Workflow:
    def __init__(self, name, container, image):
        self.name, self.container, self.image = name, container, image
        self.replicas, self.transformations, self.jobs = {}, {}, []

    def replica(self, lfn, pfn):
        self.replicas[lfn] = pfn

    def program(self, name, pfn, kind="installed"):
        self.transformations[name] = (pfn, kind)

    def job(self, name, arguments, inputs=(), outputs=(), results=(), stdout=None):
        """Adds a job. Outputs are for other jobs, results are staged out."""
        self.jobs.append((name, arguments, list(inputs), list(outputs), list(results), stdout))

    def write(self, path):
        lines = ["x-pegasus: {apiLang: python, createdBy: gantry, createdOn: '11-22-26T00:00:00Z'}", "pegasus: '5.0'",
                 f"name: {self.name}", "replicaCatalog:", "  replicas:"]
        for lfn, pfn in self.replicas.items():
            lines += [f"  - lfn: {lfn}", "    pfns:", f"    - {{site: local, pfn: {pfn}}}"]
        lines += ["transformationCatalog:", "  transformations:"]
        for name, (pfn, kind) in self.transformations.items():
            site = "local" if kind == "stageable" else "condorpool"
            lines += [f"  - name: {name}", "    sites:",
                      f"    - {{name: {site}, pfn: {pfn}, type: {kind}, container: {self.container}}}"]
        lines += ["  containers:", f"  - {{name: {self.container}, type: docker, image: 'docker://{self.image}'}}", "jobs:"]
        maker, children = {}, {}
        for n, (name, arguments, inputs, outputs, results, stdout) in enumerate(self.jobs, 1):
            job = f"ID{n:07}"
            lines += ["- type: job", f"  name: {name}", f"  id: {job}"]
            if stdout:
                lines.append(f"  stdout: {stdout}")
            lines.append("  arguments:" + "".join(f"\n  - {scalar(str(a))}" for a in arguments) if arguments else "  arguments: []")
            lines.append("  uses:")
            lines += [f"  - {{lfn: {f}, type: input}}" for f in inputs]
            for files, out in ((outputs, False), (results, True)):
                lines += [f"  - {{lfn: {f}, type: output, stageOut: {scalar(out)}, registerReplica: {scalar(out)}}}" for f in files]
            for f in outputs + results:
                maker[f] = job
            for parent in sorted({maker[f] for f in inputs if f in maker}):
                children.setdefault(parent, []).append(job)
        lines.append("jobDependencies:")
        for parent in sorted(children):
            lines += [f"- id: {parent}", "  children:"] + [f"  - {c}" for c in children[parent]]
        with open(path, "w") as out:
            out.write("\n".join(lines) + "\n")
