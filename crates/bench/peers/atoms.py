"""Positions of all atoms in all frames of the trajectories that MDAnalysis tests itself with, as Parquet: id, x, y, z in angstroms.

Argument: the file.
"""

import os
import sys

import MDAnalysis
import numpy
import pyarrow
import pyarrow.parquet
from MDAnalysisTests import datafiles

points = []
for topology, trajectory in [(datafiles.GRO, datafiles.TRR), (datafiles.PSF, datafiles.DCD)]:
    universe = MDAnalysis.Universe(topology, trajectory)
    points += [frame.positions.astype(numpy.float64) for frame in universe.trajectory]
x, y, z = numpy.concatenate(points).T
table = pyarrow.table({"id": numpy.arange(len(x)), "x": x, "y": y, "z": z})
scratch = sys.argv[1] + ".tmp"
pyarrow.parquet.write_table(table, scratch)
os.rename(scratch, sys.argv[1])
