package metrics

// timing puts the times to map workflows (Lim et al. 2017, section on the experimental setup), where rounds were timed:
//
//	mapping_mean, mapping_p99, mapping_max   O: the rounds at the arrival of a workflow, seconds
//	mapping_share                            O/T: mapping_mean over turnaround_mean
//	planning_mean                            all rounds with an outcome, over the workflows that arrived, seconds
func (c *Collector) timing(win Window, counted []*Workflow, put func(name string, v float64)) {
	if c.planned == 0 || len(counted) == 0 {
		return
	}
	mapping, turnaround := make([]float64, len(counted)), 0.0
	for i, w := range counted {
		mapping[i] = w.Mapping.Seconds()
		turnaround += w.Turnaround().Seconds() / float64(len(counted))
	}
	s := Summarise(mapping)
	put("mapping_mean", s.Mean)
	put("mapping_half", BatchConfidence(mapping).Half)
	put("mapping_p99", s.P99)
	put("mapping_max", s.Max)
	put("mapping_share", ratio(s.Mean, turnaround))
	first, last := c.bounds(win)
	planned := c.planned
	if last < len(c.workflows) {
		planned = c.plannedAt[last]
	}
	put("planning_mean", (planned-c.plannedAt[first]).Seconds()/float64(last-first))
}
