package cmd

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A small input takes few system calls that find, open or close files, in all of a run: at most three times as many
// as cp. Others are also made to look for news.
func TestSmallInputsTakeFewSystemCalls(t *testing.T) {
	beside(t)
	needsCheap(t)
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("needs strace")
	}
	gantry := gantryLink(t)
	count := func(program string, args ...string) (calls float64) {
		t.Helper()
		counts := filepath.Join(t.TempDir(), "counts")
		args = append([]string{"-f", "-c", "-o", counts, "-e", "trace=%file,close", program}, args...)
		if out, err := exec.Command(strace, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
		text, err := os.ReadFile(counts)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		if total := strings.Fields(lines[len(lines)-1]); err == nil && len(total) > 4 {
			calls, err = strconv.ParseFloat(total[3], 64)
		}
		if err != nil || calls == 0 {
			t.Fatalf("%v:\n%s", err, text)
		}
		return calls
	}
	const few, many = 50, 2000
	took := map[string][]float64{}
	for _, n := range []int{few, many} {
		c := cliTest{t, t.TempDir()}
		var names []string
		for i := range n {
			names = append(names, fmt.Sprint("f", i))
			c.write("in/"+names[i], strings.Repeat("x", 2000))
			c.write("in/tree/"+names[i], strings.Repeat("x", 2000))
		}
		list := strings.Join(names, " ")
		for form, flow := range map[string]string{
			"makeflow":  c.write("many.makeflow", "n: "+list+"\n\ttrue >n\n"),
			"directory": c.write("tree.makeflow", "n: tree\n\ttrue >n\n"),
			"WfFormat":  shellFlow(t, filepath.Join(c.dir, "many.json"), shellTask{"a", list, "n", "true >n"}),
		} {
			args := []string{"run", "--quiet", "--dir", filepath.Join(c.dir, form), "--inputs",
				filepath.Join(c.dir, "in"), "--runtime", "oci", flow}
			if form != "WfFormat" { // which names it
				args = slices.Insert(args, 1, "--image", "gantry/busybox")
			}
			took[form] = append(took[form], count(gantry, args...))
		}
		from, to := filepath.Join(c.dir, "in/tree"), filepath.Join(c.dir, "copy")
		took["cp"] = append(took["cp"], count("cp", "-r", from, to))
	}
	each := func(form string) float64 { return (took[form][1] - took[form][0]) / (many - few) }
	for form := range took {
		t.Logf("%s: %.1f calls for a file", form, each(form))
		if each(form) > 2.5*each("cp") {
			t.Errorf("%s: %.1f calls for a file, cp takes %.1f", form, each(form), each("cp"))
		}
	}
}

// The holes of inputs take no room, as those of their copies take none.
func TestInputsWithHolesFitOnTheDisk(t *testing.T) {
	beside(t)
	c := cliTest{t, t.TempDir()}
	flow := c.write("Makeflow", "n: image tree\n\ttrue >n\n")
	for _, name := range []string{"image", "tree/image"} {
		if err := os.Truncate(c.write(name, "x"), 1<<42); err != nil {
			t.Skip(err)
		}
	}
	c.gantry(exitOK, "run", "--dry-run", "--image", "gantry/busybox", "--dir", filepath.Join(c.dir, "runs"), flow)
}
