#!/usr/bin/env python3
"""Learns while it runs: an epsilon-greedy bandit for each kind of task. It tries nodes, keeps the mean time of the kind
on each, and mostly chooses the best; the longest ready task goes first. epsilon=0.1 is the share of trials."""

import random

from base import Policy


class Learning(Policy):
    def begin(self):
        self.draw, self.epsilon = random.Random(self.seed), float(self.params.get("epsilon", 0.1))
        self.mean = {}  # by kind and node: how often, and how long

    def ended(self, task, node, ran):
        n, mean = self.mean.get((task.kind, node), (0, 0))
        self.mean[task.kind, node] = n + 1, mean + (ran - mean) / (n + 1)

    def expected(self, task, node):
        return self.mean.get((task.kind, node), (0, task.run[node]))[1]

    def plan(self):
        for task in sorted(self.waiting(), key=lambda t: -t.mean()):
            nodes = self.nodes_for(task)
            if nodes and self.draw.random() < self.epsilon:
                self.start(task, self.draw.choice(nodes))
            elif nodes:
                self.start(task, min(nodes, key=lambda n: self.expected(task, n)))


if __name__ == "__main__":
    Learning.main()
