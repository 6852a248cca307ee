// Package generate makes workflows and loads of workflows: the five applications of Bharathi et al., "Characterization
// of Scientific Workflows" (WORKS 2008), in the numbers of Pegasus' WorkflowGenerator, random DAGs in the manner of
// daggen (Suter), and the total runtimes and arrivals that experiments impose on them. All of it is a function of its
// arguments and a seed.
//
// Three things are done better than by the original generators: a file has one size and one producer for all readers
// (theirs draw a size per reader, and the parts of a SIPHT workflow overwrite each other's files); two images overlap
// once at most and none overlaps itself; and the sizes of large files, which theirs draw about a quarter too small for
// a slip with the sign, have the mean they say.
package generate

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"gantry/trace"
	"gantry/trace/spelling"
)

// Kind is a kind of workflow that New makes.
type Kind struct {
	Name  string
	Also  string // another name
	About string
	Least int    // fewest tasks to ask for
	Most  int    // most tasks to ask for; 0: MostTasks
	Count string // how the number of tasks follows from the number asked for
	// Params are the parameters of its workflows beyond their number of tasks, each declared beside the kind.
	Params []Param
	title  string
	make   func(g *dag, n int, p Parameters)
	usual  func() Parameters // nil: it has none
}

var kinds = []Kind{
	{Name: "montage", About: "mosaic of images of the sky", Least: 13, Count: "as asked", title: "Montage",
		make: montage},
	{Name: "cybershake", About: "earthquake hazard of a site", Least: 5, Count: "as asked (6: 5)", title: "CyberShake",
		make: cyberShake},
	{Name: "epigenomics", Also: "genome", About: "mapping of DNA methylation", Least: 8,
		Count: "as asked or up to 3 fewer", title: "Epigenomics",
		make: epigenomics},
	{Name: "inspiral", Also: "ligo", About: "search for gravitational waves", Least: 10,
		Count: "even: of an odd number 1 fewer", title: "Inspiral",
		make: inspiral},
	{Name: "sipht", About: "search for small bacterial RNAs", Least: 14,
		Count: "1 in 31 fewer, at least 1 (30: 29, 100: 97, 1000: 968)", title: "Sipht",
		make: sipht},
	{Name: "mapreduce", About: "MapReduce job, as recalled of the load of MRCP-RM", Least: 1, Most: 1000,
		Count: "that many map tasks, and 1 to as many reduce tasks", title: "MapReduce", make: mapReduce,
		Params: mapReduceParams, usual: func() Parameters { m := DefaultMapReduce; return &m }},
	hadoop("TeraSort", "TeraSort of 3DSF, intensive in I/O and CPU",
		application{"terasort", work{0.1, 1, 1.9e9, 34e6}, work{0.1, 1, 1.9e9, 34e6}, 2e6, 1, 1}),
	hadoop("Pi", "Pi estimator of 3DSF, intensive in CPU",
		application{"pi", work{0.16, 1.5, 8e8, 5e6}, work{0.16, 1.5, 8e8, 5e6}, 1e3, 1, 1}),
	hadoop("Malloc", "Malloc of 3DSF, intensive in memory",
		application{"malloc", work{0.12, 0.5, 3.3e9, 10e6}, work{0.12, 0.5, 3.3e9, 10e6}, 1e3, 1, 1}),
	hadoop("ReadWrite", "Read/Write file of 3DSF, intensive in I/O",
		application{"readwrite", work{0.12, 0.5, 9e8, 80e6}, work{0.12, 0.5, 9e8, 80e6}, 4e6, 1, 1}),
	hadoop("Telecom", "case 1 of 3DSF: analysis of calls, intensive in all",
		application{"telecom", work{2.2, 1, 1.9e9, 34e6}, work{2.2, 1, 1.9e9, 34e6}, 32e6, 1, 0.5}),
	hadoop("Plates", "case 2 of 3DSF: number plates, intensive in CPU",
		application{"plates", work{2.3, 2, 1.8e9, 17e6}, work{1.3, 1, 1.8e9, 17e6}, 32e6, 0.05, 1}),
	hadoop("LogSearch", "case 3 of 3DSF: search in logs, intensive in memory",
		application{"logsearch", work{2, 0.5, 3.7e9, 42e6}, work{2, 0.5, 3.7e9, 42e6}, 64e6, 0.05, 1}),
	hadoop("Migration", "case 4 of 3DSF: migration of data, intensive in I/O",
		application{"migration", work{2.7, 0.5, 1.1e9, 65e6}, work{2.7, 0.5, 1.1e9, 65e6}, 64e6, 1, 1}),
	{Name: "mixed", About: "tasks over several processors, costs by cluster", Least: 1, Most: 100_000,
		Count: "as asked", title: "Mixed", make: mixed,
		Params: mixedParams, usual: func() Parameters { m := DefaultMixed; return &m }},
	{Name: "random", Also: "daggen", About: "layered random DAG", Least: 1, Count: "as asked", title: "Random",
		make: random, Params: daggenParams, usual: func() Parameters { d := DefaultDaggen; return &d }},
}

// MostTasks is the largest number of tasks to ask for.
const MostTasks = 10_000_000

// Kinds lists the kinds that New makes.
func Kinds() []Kind { return slices.Clone(kinds) }

// Find returns the kind of a name, in any case.
func Find(name string) (Kind, error) {
	var names, all []string
	for _, k := range kinds {
		if strings.EqualFold(name, k.Name) || k.Also != "" && strings.EqualFold(name, k.Also) {
			return k, nil
		}
		names = append(names, k.Name)
		if all = append(all, k.Name); k.Also != "" {
			all = append(all, k.Also)
		}
	}
	if near := spelling.Nearest(name, all); near != "" {
		return Kind{}, fmt.Errorf("there is no generator %q; did you mean %s?", name, near)
	}
	return Kind{}, fmt.Errorf("there is no generator %q; there are %s", name, strings.Join(names, ", "))
}

// Options of New. The zero value is the usual.
type Options struct {
	// Bare leaves files out: half the memory. Structure and runtimes are the same as with them.
	Bare bool
	// Parameters are those of the kind; nil: the usual ones.
	Parameters Parameters
}

// New makes a workflow of about n tasks. Kind.Count says how many that is: the same number for the same n, but of
// MapReduce jobs. Its runtimes are in hundredths of a second (SIPHT's and random ones finer), and known; cores and
// memory are not. Equal arguments give equal workflows.
func New(kind string, n int, seed uint64, o Options) (*trace.Workflow, error) {
	k, err := Find(kind)
	if err != nil {
		return nil, err
	}
	if err := k.Check(n); err != nil {
		return nil, err
	}
	source := fmt.Sprintf("generate %s --tasks %d --seed %d", k.Name, n, seed)
	p := o.Parameters
	switch {
	case k.usual == nil:
		p = nil
	case p == nil:
		p = k.usual()
	}
	if p != nil {
		if fmt.Sprintf("%T", p) != fmt.Sprintf("%T", k.usual()) {
			return nil, fmt.Errorf("%s workflows have no parameters such as %T", k.Name, p)
		}
		if d, ok := p.(*Daggen); ok {
			if err := d.fits(n); err != nil {
				return nil, err
			}
		}
		source += k.flags(p)
	}
	g := &dag{Rand: rand.New(rand.NewPCG(seed, structureStream)), bare: o.Bare, tick: 10 * time.Millisecond,
		tasks: make([]trace.Task, 0, n)}
	k.make(g, n, p)
	return g.workflow(k.title, n, source), nil
}

// Check reports why no workflow of the kind has that many tasks, or about as many.
func (k Kind) Check(n int) error {
	if n < k.Least {
		return fmt.Errorf("%s workflows of %d tasks cannot be made; they have at least %d", k.Name, n, k.Least)
	}
	if most := cmp.Or(k.Most, MostTasks); n > most {
		return fmt.Errorf("%s workflows of %d tasks are too large: the most to ask for are %d", k.Name, n, most)
	}
	return nil
}

// montage: images are projected, pairs of overlapping ones compared, the differences fitted to one model of the
// background, which is taken off every image before they are added up.
func montage(g *dag, n int, _ Parameters) {
	rest := n - 6
	images := (rest + 3) / 6
	for images*(images-1)/2 < rest-2*images {
		images++
	}
	diffs := rest - 2*images
	degree := math.Sqrt(float64(images) / 50)
	p, d := float64(images), float64(diffs)
	region := g.file(304, "region.hdr")
	project := make([]int32, images)
	projected, area := make([]int32, images), make([]int32, images)
	sizes := make([]int64, images)
	for i := range project {
		t := g.task("mProjectPP", g.normal(13.59, 0.06))
		sizes[i] = g.bytes(4162432, 113770496)
		project[i], projected[i] = t, g.file(sizes[i], "p2mass-atlas-ID%05ds-jID%05d.fits", t, t)
		area[i] = g.file(sizes[i], "p2mass-atlas-ID%05ds-jID%05d_area.fits", t, t)
		g.reads(t, region, g.file(4222080, "2mass-atlas-ID%05ds-jID%05d.fits", t, t))
		g.writes(t, projected[i], area[i])
	}
	// Every set of pairs is equally likely; they come row by row.
	pairs := distinct(diffs, func() uint64 {
		i, j := g.Uint64N(uint64(images)), g.Uint64N(uint64(images)-1)
		if j >= i {
			j++
		}
		return min(i, j)<<32 | max(i, j)
	})
	concat := int32(images + diffs)
	fits := make([]int32, 0, 2*diffs)
	for _, ij := range pairs {
		t := g.task("mDiffFit", g.normal(10.59, 0.01))
		g.reads(t, region)
		for _, i := range [2]uint64{ij >> 32, ij & math.MaxUint32} {
			g.link(project[i], t, projected[i], area[i])
		}
		fits = append(fits, g.file(g.bytes(273.74, 98.96), "fitID%05d.txt", t),
			g.file(g.bytes(284097.20, 21782993947.28), "diffID%05d.txt", t))
	}
	g.task("mConcatFit", 0.08*d)
	g.reads(concat, g.file(int64(27.2617*d), "fits_list.tbl"))
	for i := range diffs {
		g.link(int32(images+i), concat, fits[2*i], fits[2*i+1])
	}
	model := g.task("mBgModel", g.normal(0.13, 0.01)*d)
	g.link(concat, model, g.file(int64(209.953*d), "fits.tbl"))
	g.reads(model, g.file(int64(167.556*p), "pimages.tbl"))
	corrections := g.file(int64(53.1778*p), "corrections.tbl")
	first := int32(len(g.tasks))
	table := first + int32(images)
	for i := range project {
		t := g.task("mBackground", g.normal(10.74, 0.03))
		g.link(project[i], t, projected[i], area[i])
		g.link(model, t, corrections)
		g.link(t, table, g.file(sizes[i], "c2mass-atlas-ID%05ds-jID%05d.fits", project[i], project[i]),
			g.file(sizes[i], "c2mass-atlas-ID%05ds-jID%05d_area.fits", project[i], project[i]))
	}
	g.task("mImgTbl", g.normal(0.37, 0.01)*p)
	g.reads(table, g.file(int64(167.556*p), "cimages.tbl"))
	add := g.task("mAdd", g.normal(30.11, 0.05)*degree*degree)
	g.reads(add, region)
	g.link(table, add, g.file(int64(g.normal(352.24, 2309.84)*p), "newcimages.tbl"))
	mosaic := g.about(173465280*degree, 0.1)
	shrink := g.task("mShrink", 12.21*degree)
	g.link(add, shrink, g.file(mosaic, "mosaic_ID%05d_ID%05d.fits", add, add),
		g.file(mosaic, "mosaic_ID%05d_ID%05d_area.fits", add, add))
	shrunken := int64(float64(mosaic) / 24.99)
	picture := g.about(float64(shrunken)/4, 0.25)
	jpeg := g.task("mJPEG", float64(picture)/g.normal(549291, 3933630100.67))
	g.link(shrink, jpeg, g.file(shrunken, "shrunken_ID%05d_ID%05d.fits", shrink, shrink))
	g.writes(jpeg, g.file(picture, "shrunken_ID%05d_ID%05d.jpg", shrink, shrink))
}

// cyberShake: strain Green tensors of ruptures are extracted; each gives the seismograms, and their peaks, of several
// variations; two tasks pack them. Phases are those of Lim et al. 2017, figure 3, in which each of the packing tasks
// has one.
func cyberShake(g *dag, n int, _ Parameters) {
	in := func(phase int32, task int32) int32 {
		g.tasks[task].Phase = phase
		return task
	}
	rest := n - 2
	if rest == 4 { // two extractions need two tasks each, and one leaves one over
		rest = 3
	}
	extracts := max(2, int(g.about(math.Floor(0.0081*float64(rest)), 0.5)))
	if (rest-extracts)%2 != 0 {
		if extracts--; extracts < 1 {
			extracts += 2
		}
	}
	synths := (rest - extracts) / 2
	per := g.split(extracts, int64(synths), 0.25)
	slices.Sort(per)

	peaksZip, seisZip := g.about(float64(synths)*216/6, 0.25), g.about(float64(synths)*24000/6, 0.25)
	zipPSA, zipSeis := in(5, g.task("ZipPSA", float64(peaksZip)/2782)),
		in(3, g.task("ZipSeis", float64(seisZip)/228180.52))
	g.writes(zipPSA, g.file(peaksZip, "Cybershake_PSA.zip"))
	g.writes(zipSeis, g.file(seisZip, "Cybershake_Seismograms.zip"))
	rupture, variation := int64(0), int64(0)
	taken := map[[2]int64]bool{}
	for _, k := range per {
		if g.Float64() < 1.0/20 {
			rupture, variation = rupture+1, 0
		} else {
			variation++
		}
		site := fmt.Sprintf("FFI_%d_%d", rupture, variation)
		extract := in(1, g.task("ExtractSGT", g.normal(137.45, 42681.27)))
		sgt, sub := g.bytes(19958666972, 93654683371233792), g.bytes(231720131.58, 27081652820787388)
		g.reads(extract, g.file(sgt, "%s_fx.sgt", site), g.file(sgt, "%s_fy.sgt", site))
		subX, subY := g.file(sub, "%s_subfx.sgt", site), g.file(sub, "%s_subfy.sgt", site)
		clear(taken)
		for i := range k {
			synth := in(2, g.task("SeismogramSynthesis", g.normal(43.40, 984.36)))
			g.link(extract, synth, subX, subY)
			at := [2]int64{g.Int64N(10_000), g.Int64N(10_000)}
			for taken[at] {
				at = [2]int64{g.Int64N(10_000), g.Int64N(10_000)}
			}
			taken[at] = true
			change := g.file(g.bytes(3708598.53, 10160641539133.56), "%s_txt.variation-s%05d-h%05d", site, at[0],
				at[1])
			g.reads(synth, change)
			if i == k-1 {
				g.reads(extract, change)
			}
			gram := g.file(24000, "Seismogram_%s_ID%05d.grm", site, synth)
			peak := in(4, g.task("PeakValCalcOkaya", g.normal(1.09, 3.71)))
			g.link(synth, peak, gram)
			g.link(synth, zipSeis, gram)
			g.link(peak, zipPSA, g.file(216, "PeakVals_%s_ID%05d.bsa", site, synth))
		}
	}
}

// lanes finds how many lanes of how many splits make at most n tasks, and nearly n.
func lanes(n int) (lanes, splits int) {
	least := math.MaxInt
	for l := n / 4; l >= 1; l-- {
		fixed := 2*l + 3
		if l == 1 {
			fixed = 4
		}
		s := (n - fixed) / (4 * l)
		left := n - fixed - 4*l*s
		if s < 1 {
			continue
		}
		if left < least {
			lanes, splits, least = l, s, left
		}
		if s > 4 && left <= 3 {
			return l, s
		}
	}
	return lanes, splits
}

// epigenomics: each lane of a sequencer is split, its pieces filtered, converted twice and mapped onto the reference
// genome; the maps are merged by lane and then all, indexed and piled up.
func epigenomics(g *dag, n int, _ Parameters) {
	count, splits := lanes(n)
	ref := g.about(4<<30, 0.25)
	reference := g.file(ref, "chr21.BS.bfa")
	total := count * splits
	seconds := func(bytes int64, rate, variance float64) float64 { return float64(bytes) / g.normal(rate, variance) }

	size, pieces := make([]int64, total), make([]int32, total)
	for l := range count {
		whole := g.bytes(351024865.91, 21874201834298820)
		t := g.task("fastqSplit_chr21", seconds(whole, 7663927.38, 5641093085489.23))
		g.reads(t, g.file(whole, "chr21%d.sfq", l))
		for i, s := range g.split(splits, whole, 0.1) {
			at := l*splits + i
			size[at], pieces[at] = s, g.file(s, "chr21.%d.%d.sfq", l, i)
		}
	}
	// stage adds one task per piece behind the task that made the piece, and returns the first.
	stage := func(kind string, parent func(i int) int32, rate, variance float64) int32 {
		first := int32(len(g.tasks))
		for i := range total {
			g.link(parent(i), g.task(kind, seconds(size[i], rate, variance)), pieces[i])
		}
		return first
	}
	after := func(first int32) func(int) int32 { return func(i int) int32 { return first + int32(i) } }
	piece := func(i int, suffix string, bytes int64) {
		size[i], pieces[i] = bytes,
			g.file(bytes, "chr21.%d.%d%s", i/splits, i%splits, suffix)
	}
	filter := stage("filterContams_chr21", func(i int) int32 { return int32(i / splits) }, 8474776.63,
		25021537629225.05)
	for i := range total {
		ab := g.split(2, max(2, size[i]), 0.1)
		g.writes(filter+int32(i),
			g.file(ab[1], "chr21.%d.%d.contam.sfq", i/splits, i%splits))
		piece(i, ".nocontam.sfq", ab[0])
	}
	sanger := stage("sol2sanger_chr21", after(filter), 15073990.10, 12645616180851.43)
	for i := range total {
		piece(i, ".nocontam.fq", int64(float64(size[i])/g.normal(1.32, 0.1)))
	}
	bfq := stage("fastq2bfq_chr21", after(sanger), 6797390.86, 1232900899482.26)
	for i := range total {
		piece(i, ".nocontam.bfq", int64(float64(size[i])/g.normal(4.24, 0.16)))
	}
	maps := int32(len(g.tasks))
	for i := range total {
		t := g.task("map_chr21", seconds(ref, 369551.55, 13049619575.46))
		g.link(bfq+int32(i), t, pieces[i])
		g.reads(t, reference)
		piece(i, ".nocontam.map", int64(float64(size[i])/0.92))
	}
	final := func(merge int32, sum int64) int64 {
		bytes := int64(float64(sum) / 1.06)
		g.writes(merge, g.file(g.about(0.05*float64(bytes), 0.25), "chr21.nocontam.map.zr"),
			g.file(g.about(0.005*float64(bytes), 0.25), "chr21.nocontam.map.vm"))
		return bytes
	}
	var merge int32
	var merged int64 // bytes of the last merge's result
	all := int64(0)
	parts := make([]int32, count)
	for l := range count {
		merge = g.task("mapMerge_chr21", 0)
		sum := int64(0)
		for i := l * splits; i < (l+1)*splits; i++ {
			g.link(maps+int32(i), merge, pieces[i])
			sum += size[i]
		}
		g.runs(merge, seconds(sum, 2267233.18, 108246136965.12))
		if count == 1 {
			merged = final(merge, sum)
			break
		}
		bytes := int64(float64(sum) / 1.06)
		all += bytes
		parts[l] = g.file(bytes, "chr21_%d.nocontam.map", l)
	}
	if count > 1 {
		lane := merge - int32(count) + 1
		merge = g.task("mapMerge_chr21", seconds(all, 2267233.18, 108246136965.12))
		for l := range count {
			g.link(lane+int32(l), merge, parts[l])
		}
		merged = final(merge, all)
	}
	chromosome := int64(float64(merged) / g.normal(64.25, 645.17))
	index := g.task("maqindex_chr21", seconds(chromosome, 17679204.35, 22320561695167.98))
	g.link(merge, index, g.file(merged, "chr21.nocontam.map"))
	pileup := g.task("pileup_chr21", seconds(ref, 881356.45, 8956444331.45))
	g.link(index, pileup, g.file(chromosome, "chr21.nocontam.chr.map"))
	g.reads(pileup, g.file(ref, "chr21.BSnull.bfa"))
	g.writes(pileup, g.file(int64(float64(chromosome)*g.Float64()*10), "chr21.nocontam.chr.pileup"))
}

// inspiral: for stretches of the detectors' data, banks of templates are matched; coincidences give smaller banks,
// matched again.
func inspiral(g *dag, n int, _ Parameters) {
	n -= n % 2
	groups := int(g.between(1, max(3, int64(n/20))))
	if groups == 1 && (n-2)%4 != 0 {
		groups = 2
	}
	half := int64(n-2*groups) / 2
	var upper, lower, cover int64 // tasks of the first and of the second half, sum of the windows
	for try := 0; ; try++ {
		ab := []int64{half / 2, half - half/2}
		if try < 100 {
			ab = g.split(2, half, 0.1)
		}
		upper, lower = min(ab[0], ab[1]), max(ab[0], ab[1])
		if cover = g.between(lower, lower*105/100); cover <= int64(groups)*upper {
			break
		}
	}
	windows := g.windows(groups, cover, upper)
	slices.Sort(windows)
	slices.Reverse(windows)
	// over calls f for each group with the window it has of a list.
	over := func(list int64, f func(group int, from, to int32)) {
		from := int64(0)
		for i, w := range windows {
			from = min(from, list-w)
			f(i, int32(from), int32(from+w))
			from += w
		}
	}

	frame := func(detector string, key int64, i int32) int32 {
		return g.file(g.bytes(15595958.08, 334629862.67), "H-%s_RDS_L4-%d-1024.gwf", detector, key+int64(i))
	}
	shared := [3]int32{g.file(8415922, "H-CAL_FAC_DARM_ERR_H1_S5_U_060-816431677-271513184.gwf"),
		g.file(902334, "H-CAL_REF_DARM_ERR_H1_S5_V1-791418971-8.gwf"),
		g.file(2421423, "HL-INJECTIONS_100-877182655-7357981.xml")}
	frames := make([]int32, 2*lower)
	match := func(i int32) int32 { // an Inspiral of stretch i
		t := g.task("Inspiral", g.normal(460.21, 297397.45))
		g.reads(t, frames[2*i], frames[2*i+1], shared[0], shared[1], shared[2])
		return t
	}
	a, b := int32(upper), int32(lower)
	for i := range b {
		detector := "H1"
		if i >= a {
			detector = "H2"
		}
		frames[2*i], frames[2*i+1] = frame(detector, 814271587, i), frame(detector, 855853705+lower, i)
	}
	for i := range a {
		t := g.task("TmpltBank", g.normal(18.14, 0.18))
		g.reads(t, frames[2*i], frames[2*i+1], shared[0], shared[1])
	}
	found := make([]int32, b)
	for i := range a {
		bank := g.file(g.bytes(986917.26, 359037821.49), "H1-TMPLTBANK-%d-2048.xml", 786551430+i)
		g.link(i, match(i), bank)
		found[i] = g.file(g.bytes(312935.68, 335782981511.87), "H1-INSPIRAL-%d-2048.xml", 786551430+i)
	}
	coincide := func(before string, list int64, first int32) (thinca int32, files []int32) {
		thinca = int32(len(g.tasks))
		over(list, func(group int, from, to int32) {
			t := g.task("Thinca", g.normal(5.37, 0.06))
			for i := from; i < to; i++ {
				g.link(first+i, t, found[i])
			}
			files = append(files, g.file(g.bytes(33820.71, 1888180029.78), "%s%d-2048.xml", before, 600000000+group))
		})
		return thinca, files
	}
	thinca, coincidences := coincide("H1-THINCA-", upper, a)
	bank := int32(len(g.tasks))
	for range b {
		g.task("TrigBank", g.normal(5.11, 0.1))
	}
	over(lower, func(group int, from, to int32) {
		for i := from; i < to; i++ {
			g.link(thinca+int32(group), bank+i, coincidences[group])
		}
	})
	for i := range b {
		triggers := g.file(g.bytes(12779.67, 137597136.79), "H1-TRIGBANK_H1-%d-2048.xml", 752964562+i)
		g.link(bank+i, match(i), triggers)
		found[i] = g.file(g.bytes(312935.68, 335782981511.87), "H1-INSPIRAL_H1-%d-2048.xml", 752964562+i)
	}
	last, results := coincide("H1-THINCA_H1-", lower, bank+b)
	for i, f := range results {
		g.writes(last+int32(i), f)
	}
}
