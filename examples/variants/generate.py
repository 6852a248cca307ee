#!/usr/bin/env python3
"""Writes workflow.yml: planted variants are called from reads with bwa, samtools and bcftools, 14 jobs."""

import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(here))
from pegasus import Workflow  # noqa: E402

w = Workflow("variants", "genomics", "gantry/variants")
w.replica("genome.txt", "genome.txt")
w.program("plant", "bin/plant", "stageable")
w.program("compare", "bin/compare", "stageable")
for name in "wgsim bwa samtools bcftools".split():
    w.program(name, f"/usr/bin/{name}")

lanes = range(1, 4)
index = [f"reference.fa.{end}" for end in "amb ann bwt pac sa".split()]
w.job("plant", ["genome.txt"], ["genome.txt"], ["reference.fa", "sample.fa"], ["planted.tbl"])
w.job("bwa", ["index", "reference.fa"], ["reference.fa"], index)
for n in lanes:
    w.job("wgsim", "-S {0} -N 5000 -1 100 -2 100 -e 0.002 -r 0 -R 0 -X 0 sample.fa reads-{0}-1.fq reads-{0}-2.fq".format(n).split(),
          ["sample.fa"], [f"reads-{n}-1.fq", f"reads-{n}-2.fq"])
for n in lanes:
    # bwa itself makes tabs of \t.
    w.job("bwa", ["mem", "-R", rf"'@RG\tID:lane{n}\tSM:sample'", "reference.fa", f"reads-{n}-1.fq", f"reads-{n}-2.fq"],
          ["reference.fa", f"reads-{n}-1.fq", f"reads-{n}-2.fq"] + index, [f"lane-{n}.sam"], stdout=f"lane-{n}.sam")
for n in lanes:
    w.job("samtools", ["sort", "-o", f"lane-{n}.bam", f"lane-{n}.sam"], [f"lane-{n}.sam"], [f"lane-{n}.bam"])
bams = [f"lane-{n}.bam" for n in lanes]
w.job("bcftools", ["mpileup", "-f", "reference.fa", "-o", "pileup.vcf"] + bams, ["reference.fa"] + bams, ["pileup.vcf"])
# A result that another job reads.
w.job("bcftools", ["call", "-mv", "--ploidy", "1", "-o", "calls.vcf", "pileup.vcf"], ["pileup.vcf"], results=["calls.vcf"])
w.job("compare", ["planted.tbl", "calls.vcf"], ["planted.tbl", "calls.vcf"], results=["report.txt"], stdout="report.txt")
w.write(os.path.join(here, "workflow.yml"))
