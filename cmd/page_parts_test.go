package cmd

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"gantry/sqlite"
	"gantry/sqlite/logtest"
)

// failing has a task that ends well, one that fails twice and says why, and one that waits for it.
var failing = wfOf(`{"name": "a", "command": "for i in $(seq 900); do test -e /gate/go && exit; sleep 0.1; done"},
	{"name": "b", "command": "echo the last words; echo '<b>no such option</b>' >&2; exit 3"},
	{"name": "c", "parents": ["b"], "command": "true"}`)

// The page of a run in containers follows it while it runs, and ends with it. Afterwards it shows what the log has.
func TestThePageOfARunInContainers(t *testing.T) {
	needsBusybox(t)
	needsBrowser(t)
	dir := writeFiles(t, map[string]string{"f.json": failing})
	home := filepath.Join(dir, "runs")
	said, err := os.Create(filepath.Join(dir, "said"))
	must(t, err)
	out, in, err := os.Pipe()
	must(t, err)
	stdout, stderr := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = said, in
	code := make(chan int, 1)
	go func() {
		code <- run([]string{"gantry", "run", "--watch", "--retry", "exit-code=1", "--name", "f", "--image",
			"gantry/busybox", "--mount", dir + ":/gate:ro", "--dir", home, filepath.Join(dir, "f.json")})
		in.Close()
	}()
	address := make(chan string, 1)
	var errs strings.Builder
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			fmt.Fprintln(&errs, lines.Text())
			if _, url, ok := strings.Cut(lines.Text(), "watch this run at "); ok {
				address <- url
			}
		}
		close(address)
	}()
	url, ok := <-address
	if !ok {
		os.Stdout, os.Stderr = stdout, stderr
		t.Fatalf("no address was printed (exit %d)\n%s", <-code, errs.String())
	}
	page := browse(t, url)
	do(t, page, chromedp.WaitVisible(`#timeline canvas`, chromedp.ByQuery))
	poll(t, page, `document.getElementById('failures')?.innerText.includes('It blocked 1 task: c.')`)
	live := ask[string](t, page, "document.getElementById('live').textContent")
	cliTest{t, dir}.write("go", "")
	if got := <-code; got != exitTasksFailed {
		t.Errorf("the run exits with %d", got)
	}
	os.Stdout, os.Stderr = stdout, stderr
	if !strings.Contains(live, "Live, as of") {
		t.Errorf("the live page says %q", live)
	}
	poll(t, page, `document.getElementById('live').textContent.includes('has ended')`)
	expectText(t, page, "#answer", "failed")

	file := filepath.Join(dir, "f.html")
	expect(t, exitOK, nil, "report", "f", "--dir", home, "--html", file)
	page = open(t, file)
	expectText(t, page, "#answer", "1 of 3")
	expectText(t, page, "#answer", "1 / 1")
	expectText(t, page, "#failures", "1 attempt did not end well, and was tried again")
	expectText(t, page, "#failures", "It blocked 1 task: c.")
	expectText(t, page, "#failures pre", "echo the last words; echo '<b>no such option</b>' >&2; exit 3")
	if first := ask[string](t, page, "document.querySelector('main section:not([hidden])').id"); first != "failures" {
		t.Errorf("the page begins with %s, not with what failed", first)
	}
	expectText(t, page, "#failures", "gantry resume --with "+filepath.Join(dir, "f.json")+" f")
	for _, words := range []string{"the last words", "<b>no such option</b>", "exit-code 3",
		"gantry logs --attempt 2 f f/b"} {
		expectText(t, page, "#failures", words)
	}
	expectText(t, page, "#about .command", filepath.Base(os.Args[0]))
	// Limits asked and applied, and what was used, are those of the log.
	do(t, page, chromedp.Click(".tasks .tools button", chromedp.ByQuery),
		chromedp.SendKeys(".tasks input", "f/a ", chromedp.ByQuery))
	row := ask[[]string](t, page, "[...document.querySelectorAll('.tasks tr.row td')].map(d => d.textContent)")
	head := ask[[]string](t, page,
		"[...document.querySelectorAll('.tasks thead tr:last-child th')].map(d => d.textContent)")
	peak := slices.Index(head, "peak") // asked and applied stand before it
	memory := one[float64](t, home, "SELECT applied_memory_bytes / 1e6 FROM v_attempts WHERE run = 'f' AND task = 'a'")
	if memory >= 1000 {
		memory /= 1000
	}
	if want := fmt.Sprintf("%.3g", memory); peak < 2 || !strings.HasPrefix(row[peak-1], want) || row[peak] == "–" {
		t.Errorf("the applied memory, %g MB or GB, and the peak are not in the row: %q", memory, row)
	}
	explained(t, page, home, "f", "b")
	explained(t, page, home, "f", "a")
	expectText(t, page, ".timeline .detail pre", "test -e /gate/go")
	expectText(t, page, ".timeline .detail", "gantry/busybox")
	if red := ask[int](t, page, `(() => { const c = document.querySelector('.timeline canvas'), x = c.getContext('2d');
		const p = x.getImageData(0, 0, c.width, c.height).data;
		let n = 0;
		for (let i = 0; i < p.length; i += 4) n += p[i] === 0xc6 && p[i + 1] === 0x28 && p[i + 2] === 0x28;
		return n; })()`); red < 8 {
		t.Errorf("of attempts that failed in no time %d pixels are to be seen", red)
	}
	expect(t, exitOK, []string{"command: true"}, "explain", "f", "c", "--dir", home)
	if _, out, _ := invoke(t, "analyze", "f", "--dir", home); !strings.Contains(out, "  command: echo the last words") {
		t.Errorf("gantry analyze lacks the command:\n%s", out)
	}
	expect(t, exitOK, []string{"echo the last words; echo '<b>no such option</b>' >&2; exit 3\n"}, "logs", "--command",
		"f", "b", "--dir", home)
	const command = "SELECT command FROM v_tasks WHERE run = 'f' AND task = 'b'"
	if got := one[string](t, home, command); !strings.HasPrefix(got, "echo the last words; ") {
		t.Errorf("the log has the command %q", got)
	}
	expect(t, exitOK, []string{",command,", "echo the last words"}, "export", "f", "--dir", home)
	// In the graph each outcome has its colour, and a click on a task without an attempt says its command.
	if fill := ask[string](t, page, inGraph("b")+".querySelector('rect').getAttribute('fill')"); fill != "#c62828" {
		t.Errorf("in the graph a task that failed has the colour %s", fill)
	}
	do(t, page, chromedp.Evaluate(inGraph("c")+".dispatchEvent(new MouseEvent('click', {bubbles: true}))", nil))
	expectText(t, page, ".timeline .detail", "skipped")
	expectText(t, page, ".timeline .detail pre", "true")

	// A run that was continued shows each task once, and so do its spans.
	fixed := writeFiles(t, map[string]string{"f.json": strings.Replace(failing, "exit 3", "true", 1)})
	expect(t, exitOK, nil, "resume", "f", "--dir", home, "--with", filepath.Join(fixed, "f.json"))
	expect(t, exitOK, nil, "report", "f", "--dir", home, "--html", file)
	page = open(t, file)
	expectText(t, page, "#answer", "3 of 3")
	if labels := ask[string](t, page, `[...document.querySelectorAll('.dag .node text')].map(n => n.textContent).sort().
		join(' ')`); labels != "a b c" {
		t.Errorf("the graph has the tasks %s", labels)
	}
	ids := regexp.MustCompile(`"spanId":"\w+"`).FindAllString(expect(t, exitOK, nil, "export", "f", "--dir", home,
		"--format", "otlp"), -1)
	if slices.Sort(ids); len(ids) != len(slices.Compact(slices.Clone(ids))) || len(ids) < 4 {
		t.Errorf("the spans are %s", ids)
	}
}

// inGraph is the script that finds a task in the graph.
func inGraph(name string) string {
	return fmt.Sprintf("[...document.querySelectorAll('.dag .node')].find(n => n.textContent.endsWith('%s'))", name)
}

var instants = regexp.MustCompile(`(?m)^ +(\d+\.\d{3}) s  `)

// explained chooses a task in the timeline and compares its history with that of gantry explain: the page has each of
// its instants. The page counts microseconds, so that the last digit may differ by one.
func explained(t *testing.T, page context.Context, home, run, task string) {
	t.Helper()
	do(t, page, chromedp.Evaluate(fmt.Sprintf(`(() => {
		const f = document.querySelector('.tasks input'); f.value = '/%s';
		f.dispatchEvent(new Event('input')); document.querySelector('.tasks tr.row').click(); })()`, task), nil))
	text := ask[string](t, page, "document.querySelector('.timeline .detail .history').innerText")
	for _, m := range instants.FindAllStringSubmatch(expect(t, exitOK, nil, "explain", run, task, "--dir", home), -1) {
		at, err := strconv.ParseFloat(m[1], 64)
		must(t, err)
		if !slices.ContainsFunc([]float64{at - 0.001, at, at + 0.001}, func(s float64) bool {
			return strings.Contains(text, fmt.Sprintf("%.3f s", s))
		}) {
			t.Errorf("gantry explain has something of %s at %s s, which the page lacks:\n%s", task, m[1], text)
		}
	}
}

// A click in the timeline chooses an attempt and says its facts as the log has them, and other policies are simulated.
func TestThePageShowsAttemptsAndOtherPolicies(t *testing.T) {
	home, file := mosaic(t)
	expect(t, exitOK, nil, "report", "m", "--dir", home, "--html", file)
	page := open(t, file)
	longest := one[string](t, home, "SELECT task FROM v_attempts WHERE run = 'm' ORDER BY ran_ns DESC, attempt LIMIT 1")
	node := one[string](t, home, "SELECT node FROM v_attempts WHERE run = 'm' AND task = ?", longest)
	middle := one[float64](t, home, `SELECT (a.started_ns + a.ended_ns) / 2.0 / c.at_ns FROM v_attempts a
		JOIN runs r ON r.name = a.run JOIN clocks c ON c.run = r.id WHERE a.run = 'm' AND a.task = ?`, longest)
	do(t, page, chromedp.Evaluate(fmt.Sprintf(`(() => {
		const c = document.querySelector('.timeline canvas'), r = c.getBoundingClientRect();
		const x = r.left + 132 + %g * (r.width - 132), y = r.top + 24 + %d;
		const at = {clientX: x, clientY: y, bubbles: true, pointerId: 1};
		for (const e of ['pointerdown', 'pointerup']) c.dispatchEvent(new PointerEvent(e, at)); })()`, middle,
		map[string]int{"node-1": 8, "node-2": 40}[node]), nil))
	expectText(t, page, ".timeline .detail dl", longest)
	explained(t, page, home, "m", longest)

	do(t, page, chromedp.Click("#more summary", chromedp.ByQuery), chromedp.WaitVisible("#policies .other",
		chromedp.ByQuery))
	expectText(t, page, "#waits", "the plan has it later")
	// Three other policies, and the own one, replayed: it has the same makespan.
	makespan := one[float64](t, home, "SELECT makespan_s FROM v_runs WHERE run = 'm'")
	if n := ask[int](t, page, "document.querySelectorAll('#policies .other').length"); n != 5 {
		t.Errorf("%d timelines, not those of the run, of its replay, and of three policies", n)
	}
	replayed := ask[string](t, page, "document.querySelectorAll('#policies .other')[1].innerText")
	if !strings.Contains(replayed, fmt.Sprintf("%.0f s", makespan)) {
		t.Errorf("the replay of the own policy has not its makespan of %g s: %s", makespan, replayed)
	}
	expect(t, exitOK, nil, "report", "m", "--dir", home, "--html", file, "--policies", "gbf")
	page = open(t, file)
	do(t, page, chromedp.Click("#more summary", chromedp.ByQuery), chromedp.WaitVisible("#policies .other",
		chromedp.ByQuery))
	expectText(t, page, "#policies", "greedy backfilling")
	expect(t, exitUsage, []string{"--policies"}, "report", "m", "--dir", home, "--html", file, "--policies", "fly")
}

// Many tasks are grouped by type in the graph; a type opens with the keyboard.
func TestTheGraphOfManyTasksOpens(t *testing.T) {
	home := t.TempDir()
	dir := writeFiles(t, map[string]string{"w.yaml": "seed: 7\ncount: 4\nmix: [{generator: montage, fraction: 1}]\n" +
		"tasks: 100\ntotal_runtime: {distribution: lognormal, mean: 20m, variation: 1}\n" +
		"deadlines: {factor: 1.2}\narrivals: {process: poisson, utilisation: 0.9}\n"})
	file := filepath.Join(home, "run.html")
	expect(t, exitOK, nil, "simulate", "--quiet", "--dir", home, "--name", "g", filepath.Join(dir, "w.yaml"))
	expect(t, exitOK, nil, "report", "g", "--dir", home, "--html", file, "--policies", "none")
	page := open(t, file)
	nodes := "document.querySelectorAll('.dag .node').length"
	kinds := one[int](t, home, "SELECT count(DISTINCT kind) FROM v_tasks WHERE run = 'g'")
	if n := ask[int](t, page, nodes); n != kinds {
		t.Errorf("the graph has %d nodes for %d types", n, kinds)
	}
	name := ask[string](t, page, "document.querySelectorAll('.dag .node')[1].getAttribute('aria-label').split(':')[0]")
	of := one[int](t, home, "SELECT count(*) FROM v_tasks WHERE run = 'g' AND kind = ?", name)
	do(t, page, chromedp.Evaluate("document.querySelectorAll('.dag .node')[1].focus()", nil),
		chromedp.KeyEvent(kb.Enter))
	if n := ask[int](t, page, nodes); n != kinds-1+min(of, 300) {
		t.Errorf("with type %s open the graph has %d nodes, not %d", name, n, kinds-1+min(of, 300))
	}
}

// Odd runs and several have a page, unwritable places an error.
func TestPagesOfOddRuns(t *testing.T) {
	page := func(home, run string) context.Context {
		file := filepath.Join(t.TempDir(), "x.html")
		expect(t, exitOK, nil, "report", run, "--dir", home, "--html", file)
		return open(t, file)
	}
	none := newLog(t, func(db *sqlite.DB) {
		l := logtest.New(t, db, logtest.Info("none"))
		must(t, l.Finish(t.Context(), sqlite.Finished, exitOK))
	})
	expectText(t, page(none, "none"), "#answer", "This run has no tasks.")
	stuck := page(stuckLog(t, sqlite.Running), "stuck")
	expectText(t, stuck, "#answer", "No gantry works on this run: it was killed.")
	expectText(t, stuck, "#subtitle", "Written 2")
	expectText(t, stuck, "#failures", "the last words on standard error")
	do(t, stuck, chromedp.Click("#more summary", chromedp.ByQuery), chromedp.WaitVisible("#policies .note",
		chromedp.ByQuery))
	expectText(t, stuck, "#policies", "once the run is over")
	both := newLog(t, func(db *sqlite.DB) {
		logtest.Diamond(t, db, "a")
		logtest.Diamond(t, db, "b")
	})
	file := filepath.Join(both, "deep", "er", "runs.html")
	expect(t, exitOK, nil, "report", "a", "b", "--dir", both, "--html", file)
	several := open(t, file)
	expectText(t, several, "#title", "2 runs")
	if n := ask[int](t, several, "document.querySelectorAll('#answer .run').length"); n != 2 {
		t.Errorf("%d of 2 runs are on the page", n)
	}
	expect(t, exitInput, []string{"nothere"}, "report", "nothere", "--dir", both, "--html", file)
	blocked := filepath.Join(file, "x.html")
	expect(t, exitHost, []string{blocked}, "report", "a", "--dir", both, "--html", blocked)
}

func TestAPageThatCannotBeWrittenLeavesNothing(t *testing.T) {
	home := stuckLog(t, sqlite.Failed)
	dir := t.TempDir()
	file := filepath.Join(dir, "x.html")
	log := filepath.Join(home, sqlite.FileName)
	text, err := os.ReadFile(log)
	must(t, err)
	for at := 4096; at < len(text); at += 4096 { // damage every page but the first
		copy(text[at:], "damaged damaged damaged damaged damaged")
	}
	must(t, os.WriteFile(log, text, 0o644))
	code, _, errs := invoke(t, "report", "stuck-run-1", "--dir", home, "--html", file)
	if code != exitHost || !strings.Contains(errs, "damaged") {
		t.Errorf("a damaged log: exit %d\n%s", code, errs)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%s is left", left[0].Name())
	}
}

func TestAPortInUseIsSaidBeforeAnythingRuns(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	dir := writeFiles(t, map[string]string{"one.dax": oneTask})
	home := filepath.Join(dir, "runs")
	_, port, _ := net.SplitHostPort(l.Addr().String())
	expect(t, exitHost, []string{"port " + port + " is in use"}, "run", "--runtime", "null", "--watch", "--port", port,
		"--dir", home, filepath.Join(dir, "one.dax"))
	if n := one[int](t, home, "SELECT count(*) FROM runs"); n != 0 {
		t.Errorf("%d runs began", n)
	}
	expect(t, exitUsage, []string{"--port has no effect", "without --watch"}, "run", "--runtime", "null", "--port",
		port, "--dir", home, filepath.Join(dir, "one.dax"))
	over := stuckLog(t, sqlite.Failed)
	expect(t, exitInput, []string{"has ended (failed)", "gantry report stuck-run-1 --html"}, "watch", "stuck", "--dir",
		over)
	expect(t, exitInput, []string{"no run"}, "watch", "nothere", "--dir", over)
}
