#!/usr/bin/env python3
"""Writes workflow.yml: a mosaic of six exposures with Montage, 40 jobs."""

import os
import random
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(here))
from pegasus import Workflow  # noqa: E402

random.seed(1)
w = Workflow("mosaic", "montage", "gantry/montage")
w.replica("survey.txt", "survey.txt")
w.program("sky", "bin/sky", "stageable")
w.program("gather", "bin/gather", "stageable")
for name in "mMakeImg mProjectPP mDiff mFitplane mBgModel mBackground mImgtbl mAdd mViewer".split():
    w.program(name, f"/usr/bin/{name}")

exposures = range(1, 7)
overlaps = ["1-2", "2-3", "4-5", "5-6", "1-4", "2-5", "3-6"]
sources = ["stars.tbl", "galaxy.tbl", "disk.tbl"]


def image(kind, n):
    """A FITS image and its map of weights."""
    return [f"{kind}-{n}.fits", f"{kind}-{n}_area.fits"]


w.job("sky", ["survey.txt"], ["survey.txt"],
      sources + ["region.hdr", "projected.lst", "corrected.lst"] + [f"raw-{n}.hdr" for n in exposures])
for n in exposures:
    level, tilt, slope = 40 + 60 * random.random(), 8 * random.random() - 4, 8 * random.random() - 4
    background = [f"{b:.2f}" for b in (level, level + tilt, level + tilt + slope, level + slope)]
    stars = [a for table, width in zip(sources, ("2.5", "5", "14"))
             for a in ("-t", table, "flux", width, "EQU", "J2000", "1", "flux", "gaussian")]
    w.job("mMakeImg", ["-n", "0.5", "-b"] + background + stars + [f"raw-{n}.hdr", f"raw-{n}.fits"],
          sources + [f"raw-{n}.hdr"], [f"raw-{n}.fits"])
for n in exposures:
    w.job("mProjectPP", [f"raw-{n}.fits", f"p-{n}.fits", "region.hdr"], [f"raw-{n}.fits", "region.hdr"], image("p", n))
for o in overlaps:
    a, b = o.split("-")
    w.job("mDiff", [f"p-{a}.fits", f"p-{b}.fits", f"d-{o}.fits", "region.hdr"],
          image("p", a) + image("p", b) + ["region.hdr"], image("d", o))
for o in overlaps:
    w.job("mFitplane", [f"d-{o}.fits"], [f"d-{o}.fits"], [f"plane-{o}.txt"], stdout=f"plane-{o}.txt")
planes = [f"plane-{o}.txt" for o in overlaps]
w.job("gather", planes, planes, ["fits.tbl"], stdout="fits.tbl")
w.job("mImgtbl", ["-t", "projected.lst", ".", "images.tbl"], ["projected.lst"] + [f"p-{n}.fits" for n in exposures], ["images.tbl"])
# A result that other jobs read.
w.job("mBgModel", ["images.tbl", "fits.tbl", "corrections.tbl"], ["images.tbl", "fits.tbl"], results=["corrections.tbl"])
for n in exposures:
    w.job("mBackground", ["-t", f"p-{n}.fits", f"c-{n}.fits", "images.tbl", "corrections.tbl"],
          image("p", n) + ["images.tbl", "corrections.tbl"], image("c", n))
w.job("mImgtbl", ["-t", "corrected.lst", ".", "corrected.tbl"], ["corrected.lst"] + [f"c-{n}.fits" for n in exposures], ["corrected.tbl"])
w.job("mAdd", ["-e", "corrected.tbl", "region.hdr", "mosaic.fits"],
      ["corrected.tbl", "region.hdr"] + [f for n in exposures for f in image("c", n)], ["mosaic_area.fits"], ["mosaic.fits"])
w.job("mViewer", ["-ct", "0", "-gray", "mosaic.fits", "80%", "99.95%", "gaussian-log", "-out", "mosaic.png"], ["mosaic.fits"], results=["mosaic.png"])
w.write(os.path.join(here, "workflow.yml"))
