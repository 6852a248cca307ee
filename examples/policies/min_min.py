#!/usr/bin/env python3
"""Min-min (Ibarra and Kim, Journal of the ACM 24(2), 1977): of all ready tasks the one that can end first is placed
where it ends first, until each has a place. Those that cannot start yet are placed again in the next round."""

from base import Policy


class MinMin(Policy):
    def plan(self):
        self.replan()
        left = self.waiting()
        while left:
            _, task, node = min((*self.earliest(task, n)[:1], task.id, n) for task in left
                                for n, run in enumerate(task.run) if run is not None)
            self.plan_on(self.tasks[task], node)
            left.remove(self.tasks[task])


if __name__ == "__main__":
    MinMin.main()
