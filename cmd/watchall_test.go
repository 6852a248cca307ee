package cmd

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// watching starts gantry watch, and returns the address that it prints.
func watching(t *testing.T, args ...string) string {
	t.Helper()
	cmd := gantryProcess(t, append([]string{"watch"}, args...)...)
	out, err := cmd.StdoutPipe()
	must(t, err)
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Signal(os.Interrupt); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	return strings.TrimSpace(line)
}

// The page of a directory lists the queue, tenants and nodes of its server, and all runs, with a page of each; 10,000
// submissions make it no wider and hardly slower.
func TestThePageOfADirectory(t *testing.T) {
	needsBrowser(t)
	dir := t.TempDir()
	expect(t, exitOK, nil, "simulate", "--quiet", "--dir", dir, "--name", "earlier", montage)
	const result = "run/earlier/results/montage-25/a b.txt"
	cliTest{t, dir}.write(strings.TrimPrefix(result, "run/"), "came out")
	s := serveIn(t, dir, "--runtime", "null", "--name", "srv", "--time-scale", "0")
	count := 10_000
	if testing.Short() {
		count = 40
	}
	evil := `<img src=x onerror="window.harm = 1">`
	files := writeFiles(t, map[string]string{"w.yaml": fmt.Sprintf("seed: 7\ncount: %d\ntasks: 13\nmix: [{generator: "+
		"montage, fraction: 1}]\ntotal_runtime: {distribution: lognormal, mean: 20s, variation: 1}\n"+
		"arrivals: {process: poisson, utilisation: 0.01}\n", count), evil + ".makeflow": "a:\n\ttrue >a\n"})
	first := s.submit("--emulate", filepath.Join(files, evil+".makeflow"))
	s.submit("--emulate", filepath.Join(files, "w.yaml"))
	address := watching(t, "--dir", dir)
	page := browse(t, address)
	poll(t, page, `document.querySelectorAll('#queue tbody tr').length > 0`)
	shown := ask[int](t, page, "document.querySelectorAll('#queue tbody tr').length")
	if shown < min(count, 1000) || shown > 2000 {
		t.Errorf("%d of %d submissions are listed", shown, count)
	}
	if count > 1000 {
		expectText(t, page, "#queue .note", "more that wait")
	}
	expectText(t, page, "#nodes", "host")
	expectText(t, page, "#runs", "earlier")
	expectText(t, page, "#runs", "srv")
	for _, width := range []int64{400, 800, 1400} {
		do(t, page, chromedp.EmulateViewport(width, 900))
		if n := ask[int64](t, page, "document.documentElement.scrollWidth"); n > width {
			t.Errorf("at %d pixels the page is %d wide", width, n)
		}
	}
	do(t, page, chromedp.SendKeys(".tools input", "onerror", chromedp.ByQuery))
	if n := ask[int](t, page, "document.querySelectorAll('#queue tbody tr').length"); n != 1 && count <= 1000 ||
		ask[bool](t, page, "'harm' in window || document.querySelectorAll('main img').length > 0") {
		t.Errorf("%d submissions have the odd name, or it became a part of the page", n)
	}
	// From the list into a submission and into runs, under way or not.
	for _, x := range []struct{ path, has, title string }{
		{"submission/" + first, "1 of 1", "Submission " + first + ": "}, {"run/earlier", "25 of 25", "earlier"}} {
		one := browse(t, address+x.path+"/")
		poll(t, one, `document.querySelector('#answer') !== null`)
		expectText(t, one, "main", x.has)
		expectText(t, one, "#title", x.title)
		if x.path == "run/earlier" {
			link := ask[string](t, one, "document.querySelector('#results a').href")
			r, err := http.Get(link)
			must(t, err)
			text, _ := io.ReadAll(r.Body)
			if r.Body.Close(); string(text) != "came out" || link != address+strings.ReplaceAll(result, " ", "%20") {
				t.Errorf("%s is %q", link, text)
			}
		}
	}
	for path, want := range map[string]string{"run/earlier/results/none": "no such result",
		"run/nothere/": "no run", "run/..%2f..%2fetc/": "no run", "x/y/": "no such page",
		"submission/99999999/": "99999999"} {
		r, err := http.Get(address + path)
		must(t, err)
		text, _ := io.ReadAll(r.Body)
		if r.Body.Close(); r.StatusCode != http.StatusNotFound || !strings.Contains(string(text), want) {
			t.Errorf("%s answers %d: %s", path, r.StatusCode, text)
		}
	}
}
