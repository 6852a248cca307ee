package predictions

import (
	"bufio"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gantry/scripts/measure"
)

// program is a workflow of one real program on three inputs; more joins what comes out.
type program struct {
	name, about string
	before      string // rules of a makeflow
	each        string // rules for each input, where # is its number
	after       string
	bytes       func(scale float64) float64 // of the largest input
}

const indexed = "ref.fa.amb ref.fa.ann ref.fa.bwt ref.fa.pac ref.fa.sa"

var programs = []program{
	{name: "gzip", about: "gzip", each: "CATEGORY=gzip\nz#.gz: gzip-#.in\n\tgzip <gzip-#.in >z#.gz\n",
		bytes: func(s float64) float64 { return 4e6 * s }},
	{name: "sort", about: "sort, then sort -m", each: "CATEGORY=sort\ns#.txt: sort-#.in\n\tsort <sort-#.in >s#.txt\n",
		after: "CATEGORY=merge\nsorted.txt: s1.txt s2.txt s3.txt\n\tsort -m s1.txt s2.txt s3.txt >sorted.txt\n",
		bytes: func(s float64) float64 { return 6e6 * s }},
	{name: "compare", about: "awk compares each line with each",
		each: "CATEGORY=compare\nc#.txt: compare-#.in\n\tawk '{ v[NR] = length(\\$2) } END { for (i = 1; i <= NR; " +
			"i++) for (j = 1; j <= NR; j++) s += v[i] * v[j]; print s }' compare-#.in >c#.txt\n",
		bytes: func(s float64) float64 { return 3e4 * math.Sqrt(s) }},
	{name: "align", about: "bwa mem, samtools sort, merge and flagstat",
		before: "CATEGORY=index\n" + indexed + ": ref.fa\n\tbwa index ref.fa\n",
		each: "CATEGORY=align\na#.sam: align-#.in " + indexed + "\n\tbwa mem ref.fa align-#.in >a#.sam\n" +
			"CATEGORY=order\na#.bam: a#.sam\n\tsamtools sort -o a#.bam a#.sam\n",
		after: "CATEGORY=count\nflags.txt: a1.bam a2.bam a3.bam\n\tsamtools merge -f all.bam a1.bam a2.bam a3.bam && " +
			"samtools flagstat all.bam >flags.txt\n", bytes: func(s float64) float64 { return 4e6 * s }},
}

// workflow writes the makeflow of programs and its inputs, and returns the arguments of gantry run for it.
func workflow(t *testing.T, dir, name string, of []program, scale float64) []string {
	in := filepath.Join(dir, fmt.Sprintf("%s-%g", name, scale))
	must(t, os.MkdirAll(in, 0o755))
	text := "MEMORY=250\n"
	rng := rand.New(rand.NewPCG(math.Float64bits(scale), 7))
	for _, p := range of {
		text += p.before
		for i, part := range []float64{1, 0.8, 0.6} {
			text += strings.ReplaceAll(p.each, "#", fmt.Sprint(i+1))
			file := filepath.Join(in, fmt.Sprintf("%s-%d.in", p.name, i+1))
			must(t, writeInput(file, rng, p.bytes(scale)*part, p.name == "align"))
		}
		text += p.after
	}
	reference := []byte(">ref\n" + genome + "\n")
	flow := filepath.Join(in, "w.makeflow")
	must(t, os.WriteFile(filepath.Join(in, "ref.fa"), reference, 0o644))
	must(t, os.WriteFile(flow, []byte(text), 0o644))
	return []string{"--cluster", "examples/predict/small.yaml", "--image", "gantry/variants", "--inputs", in, flow}
}

// genome is drawn, and the same for all.
var genome = func() string {
	b, rng := make([]byte, 200_000), rand.New(rand.NewPCG(1, 1))
	for i := range b {
		b[i] = "ACGT"[rng.IntN(4)]
	}
	return string(b)
}()

// writeInput draws lines of text, or reads of the genome.
func writeInput(path string, rng *rand.Rand, bytes float64, reads bool) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	for n := 0; float64(n) < bytes; {
		line := fmt.Sprintf("%016x %d\n", rng.Uint64(), rng.IntN(1000))
		if reads {
			at := rng.IntN(len(genome) - 100)
			line = fmt.Sprintf("@r%d\n%s\n+\n%s\n", n, genome[at:at+100], strings.Repeat("I", 100))
		}
		n += len(line)
		w.WriteString(line)
	}
	return w.Flush()
}

// run runs a command of gantry.
func run(t *testing.T, args ...string) {
	t.Helper()
	_, err := measure.Built.Run(t.Context(), args...)
	must(t, err)
}

// asked reads the JSON that a command of gantry prints.
func asked[T any](t *testing.T, args ...string) (out T) {
	t.Helper()
	must(t, measure.Built.JSON(t.Context(), &out, args...))
	return out
}

// span is a makespan in the JSON of gantry.
type span struct {
	Makespan float64 `json:"makespan_s"`
	Low      float64 `json:"makespan_low_s"`
	High     float64 `json:"makespan_high_s"`
}

// Each workflow runs on three samples of its input. Two full runs are predicted, and done.
func TestFullRunsAfterSmallOnes(t *testing.T) {
	begin(t, true, "")
	home, w := t.TempDir(), &strings.Builder{}
	flows := append(slices.Clone(programs), program{name: "all", about: "all four at once"})
	fmt.Fprint(w, `
Each program runs on three samples of its input, in containers of a node of four quarters of a CPU
([small.yaml](small.yaml)). `+"`gantry predict --small`"+` learns from these runs. Full inputs take about two and
four times as long as the largest sample; those of awk, whose time grows with the square, are 1.4 and twice as large.
Sizes of files between programs are not declared.

| programs | work | predicted | interval of 80 % | measured | error | inside |
| --- | --- | --- | --- | --- | --- | --- |
`)
	learn := []string{"predict", "--dir", home}
	within, inside, cases := 0, 0, 0
	for _, p := range flows {
		of := []program{p}
		if p.each == "" {
			of = programs
		}
		scales := []float64{1, 2, 3, 6, 12}
		if p.each == "" {
			scales = []float64{5, 10} // no task on an input that it had in a run before
		}
		for _, scale := range scales {
			name := fmt.Sprintf("%s-%g", p.name, scale)
			args := workflow(t, home, p.name, of, scale)
			whole := append([]string{"run", "--quiet", "--dir", home, "--name", name}, args...)
			if scale <= 3 {
				learn = append(learn, "--small", name)
				run(t, whole...)
				continue
			}
			run(t, learn...)
			predicted := asked[span](t, append([]string{"run", "--dry-run", "--json", "--estimator", "trained", "--dir",
				home}, args...)...)
			run(t, whole...)
			measured := asked[span](t, "show", "--json", "--dir", home, name)
			wrong, in := 100*(predicted.Makespan/measured.Makespan-1), "no"
			if cases++; math.Abs(wrong) <= 15 {
				within++
			}
			if predicted.Low <= measured.Makespan && measured.Makespan <= predicted.High {
				inside, in = inside+1, "yes"
			}
			fmt.Fprintf(w, "| %s | %.2g × | %.1f s | %.1f to %.1f s | %.1f s | %+.1f %% | %s |\n", p.about, scale/3,
				predicted.Makespan, predicted.Low, predicted.High, measured.Makespan, wrong, in)
		}
	}
	fmt.Fprintf(w, "\n%d of %d predictions are within 15 %%, %d runs within their intervals.\n", within, cases, inside)
	bar(t, "predictions of ten within 15 %", float64(within), 8, 10)
	bar(t, "runs of ten within their intervals", float64(inside), 8, 10)
	publish(t, page, "## From small runs to the full one", w.String())
}
