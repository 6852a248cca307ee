#!/usr/bin/env python3
"""Gives gantry an order, the shortest ready task first: gantry starts each on the fastest node that has room."""

from base import Policy


class ShortestFirst(Policy):
    def plan(self):
        return {"order": sorted(self.ready, key=lambda t: (self.ready[t].mean(), t))}


if __name__ == "__main__":
    ShortestFirst.main()
