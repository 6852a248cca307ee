package scenario

import "gantry/trace/reader"

// Data says where the input files of workflows lie when they arrive. Each has a row of blocks, and each block replicas
// on some nodes:
//
//	data: {placement: hdfs, block: 128MiB, replicas: 3}       # these are the defaults where there is the key
//
// placement is hdfs (first replica on any node, second in another group, third in the group of the second), random
// (different nodes, each as likely), or everywhere (every node has every file, as without the key). The draws are a
// function of the seed of the workload.
type Data struct {
	Placement string // hdfs, random or everywhere
	Block     int64  // bytes, before --size-scale; larger files are split
	Replicas  int    // of each block
}

func (y *doc) data(to **Data) func(*reader.Node) {
	return func(v *reader.Node) {
		d := &Data{Placement: "hdfs", Block: 128 << 20, Replicas: 3}
		has := y.keyed(v, "data", []yamlKey{
			{"placement", y.word(&d.Placement, "placement", "hdfs", "random", "everywhere")},
			{"block", y.amount(&d.Block, "block", "")},
			{"replicas", y.count(&d.Replicas, "replicas", 1, maxNodes)},
		})
		if has == nil {
			return
		}
		for _, name := range []string{"block", "replicas"} {
			if has[name] > 0 && d.Placement == "everywhere" {
				y.Faults.Fail("bad-value", y.Line(v), "", "data: %s is not for placement everywhere", name)
			}
		}
		*to = d
	}
}
