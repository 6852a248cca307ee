package generate

import (
	"time"

	"gantry/trace"
)

// application is one of the MapReduce applications that 3DSF is evaluated with (Ru et al., section 9): four of Hadoop's
// benchmarks, then four of practice. The paper says which resource each uses most, not the needs of its tasks. Their
// needs here follow from its figures: with jobs of two map tasks and a reduce task the loads it reports come to the
// utilisation, of 5 nodes of 8 cores, 16 GB and 300 MB/s, at the completion times that it reports for 3DSF. Large ones
// are as they were, so that times are in seconds and splits in megabytes.
type application struct {
	name          string // in front of the types of its tasks, as a map task of one says nothing of those of another
	maps, reduces work
	split         float64 // bytes that a map task reads
	kept          float64 // bytes that a map task writes over bytes that it reads
	result        float64 // the same of the reduce task
}

// work is the time that a task takes, and the resources that it holds for that time.
type work struct {
	seconds float64
	cores   float64
	memory  int64 // bytes
	disk    int64 // bytes per second
}

// hadoop is the kind of the jobs of an application.
func hadoop(title, about string, a application) Kind {
	k := Kind{Name: a.name, About: about, Least: 2, title: title, make: hadoopJob,
		Count: "as asked: a map task for each split and one reduce task",
		usual: func() Parameters { return &Hadoop{a, a.kept} }}
	if a.kept < 1 {
		k.Params = []Param{{Key: "kept", About: "bytes that a map task writes over bytes that it reads", Value: "N",
			way: uniform, most: 1000, must: "a number, or a range such as 0.05..1, from 0 to 1000", field: "Kept"}}
	}
	return k
}

// Hadoop has the parameters of a job of an application.
type Hadoop struct {
	application
	Kept float64 // instead of that of the application
}

// hadoopJob: every map task reads a split of its own, a reduce task the outputs of all map tasks. Times vary by a tenth
// (standard deviation over mean).
func hadoopJob(g *dag, n int, p Parameters) {
	a := p.(*Hadoop)
	g.tick = time.Millisecond
	task := func(kind string, w work, phase int32) int32 {
		t := g.task(kind, g.normal(w.seconds, w.seconds*w.seconds/100))
		x := &g.tasks[t]
		x.Known |= trace.Cores | trace.Memory
		x.Cores, x.MemoryBytes, x.DiskBps, x.Phase = w.cores, w.memory, w.disk, phase
		return t
	}
	maps := n - 1
	for range maps {
		task(a.name+"-map", a.maps, 1)
	}
	reduce := task(a.name+"-reduce", a.reduces, 2)
	for i := range int32(maps) {
		g.reads(i, g.file(int64(a.split), "split-%d", i))
		g.link(i, reduce, g.file(int64(a.split*a.Kept), "part-%d", i))
	}
	g.writes(reduce, g.file(int64(float64(maps)*a.split*a.Kept*a.result), "result"))
}
