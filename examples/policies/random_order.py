#!/usr/bin/env python3
"""Starts ready tasks in a random order, each on a random node that has room."""

import random

from base import Policy


class Random(Policy):
    def begin(self):
        self.draw = random.Random(self.seed)

    def plan(self):
        tasks = self.waiting()
        self.draw.shuffle(tasks)
        for task in tasks:
            nodes = self.nodes_for(task)
            if nodes:
                self.start(task, self.draw.choice(nodes))


if __name__ == "__main__":
    Random.main()
