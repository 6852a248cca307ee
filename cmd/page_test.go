package cmd

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gantry/sqlite"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// open shows a file in a headless browser, which loads nothing else, and waits until the page is drawn. Whatever the
// console says fails the test.
func open(t *testing.T, file string) context.Context {
	t.Helper()
	return browse(t, "file://"+file)
}

// browse is open for any address.
func browse(t *testing.T, address string) context.Context {
	t.Helper()
	ctx, stop := chromedp.NewContext(needsBrowser(t))
	t.Cleanup(stop)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(cancel)
	chromedp.ListenTarget(ctx, func(e any) {
		switch e := e.(type) {
		case *runtime.EventConsoleAPICalled:
			t.Errorf("the console says: %v", e.Args)
		case *runtime.EventExceptionThrown:
			t.Errorf("the page throws: %v", e.ExceptionDetails)
		case *log.EventEntryAdded:
			t.Errorf("the browser says: %s", e.Entry.Text)
		case *network.EventRequestWillBeSent:
			if url := e.Request.URL; !strings.HasPrefix(url, address) && !strings.HasPrefix(url, "data:") &&
				!strings.HasPrefix(url, "blob:") {
				t.Errorf("the page loads %s", url)
			}
		}
	})
	do(t, ctx, network.Enable(), chromedp.Navigate(address),
		chromedp.WaitVisible(`html[data-ready=yes] main`, chromedp.ByQuery))
	return ctx
}

func needsBrowser(t *testing.T) context.Context {
	t.Helper()
	all, err := browser()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("needs a browser: chromium-headless-shell (make browser)")
	} else if err != nil {
		t.Fatal(err)
	}
	return all
}

var endBrowser = func() {}

// browser is the one of all tests, each of which has pages of its own.
var browser = sync.OnceValues(func() (context.Context, error) {
	shell, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(shell), chromedp.NoSandbox,
		chromedp.WindowSize(1200, 900), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.WSURLReadTimeout(3*time.Minute),
		chromedp.ModifyCmdFunc(func(cmd *exec.Cmd) {
			// The distribution's command is a script: the browser behind it has to end with it.
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
			cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		}))
	alloc, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stop := chromedp.NewContext(alloc)
	endBrowser = func() { stop(); end() }
	return ctx, chromedp.Run(ctx) // it starts
})

func do(t *testing.T, ctx context.Context, actions ...chromedp.Action) {
	t.Helper()
	must(t, chromedp.Run(ctx, actions...))
}

// poll waits until a script in the page is true.
func poll(t *testing.T, ctx context.Context, script string) {
	t.Helper()
	do(t, ctx, chromedp.Poll(script, nil, chromedp.WithPollingTimeout(0))) // a busy host may need more than 30 s
}

// ask evaluates a script in the page.
func ask[T any](t *testing.T, ctx context.Context, script string) (v T) {
	t.Helper()
	do(t, ctx, chromedp.Evaluate(script, &v))
	return v
}

func expectText(t *testing.T, ctx context.Context, selector, want string) {
	t.Helper()
	var got string
	do(t, ctx, chromedp.TextContent(selector, &got, chromedp.ByQuery))
	if !strings.Contains(got, want) {
		t.Errorf("%s says %q, which lacks %q", selector, got, want)
	}
}

// mosaic simulates a run called m, of Montage under HEFT, and returns its directory and a place for its page.
func mosaic(t *testing.T) (home, file string) {
	t.Helper()
	home = t.TempDir()
	expect(t, exitOK, nil, "simulate", "--quiet", "--dir", home, "--name", "m", "--policy", "heft", "--cluster",
		"../examples/montage/cluster.yaml", montage)
	return home, filepath.Join(home, "run.html")
}

func TestThePageOfARunShowsWhatTheLogHas(t *testing.T) {
	home, file := mosaic(t)
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(home, sqlite.FileName))
	if err == nil { // as of a run in containers
		_, err = db.Exec(`INSERT INTO predictions(run, at_ns, scope, name, basis, tasks, repetitions, expected_ns,
			low_ns, high_ns) SELECT id, 0, 'run', '', 'declared', 25, 10, 111e9, 99e9, 123e9 FROM runs`)
		err = errors.Join(err, db.Close())
	}
	must(t, err)
	expect(t, exitOK, []string{"wrote " + file}, "report", "m", "--dir", home, "--html", file)
	page := open(t, file)

	expectText(t, page, "#answer", "predicted before it began")
	expectText(t, page, "#answer", "with a probability of 80 %")
	makespan := one[float64](t, home, "SELECT makespan_s FROM v_runs WHERE run = 'm'")
	expectText(t, page, "#answer", fmt.Sprintf("%.0f s", makespan))
	expectText(t, page, "#answer", "25 of 25")
	expectText(t, page, ".tasks [role=status]", "25 of 25 attempts")
	if drawn := ask[int](t, page, "+document.querySelector('.timeline canvas').dataset.drawn"); drawn != 25 {
		t.Errorf("the timeline has %d bars", drawn)
	}
	// The critical path ends with the task that ended last, and its parts add up to the makespan.
	last := one[string](t, home, "SELECT kind FROM v_tasks WHERE run = 'm' ORDER BY ended_s DESC LIMIT 1")
	if got := ask[string](t, page,
		"[...document.querySelectorAll('#answer details tbody tr')].pop().firstChild.textContent"); got != last {
		t.Errorf("the critical path ends with %q, not %q", got, last)
	}

	// Sorting: by the longest run; the first row is that task.
	do(t, page, chromedp.Evaluate("(() => { const b = [...document.querySelectorAll('.tasks th button')].find("+
		"b => b.textContent === 'ran'); b.click(); b.click(); })()", nil))
	longest := one[string](t, home,
		"SELECT workflow || '/' || task FROM v_tasks WHERE run = 'm' ORDER BY runtime_s DESC LIMIT 1")
	kind := one[string](t, home, "SELECT kind FROM v_tasks WHERE run = 'm' ORDER BY runtime_s DESC LIMIT 1")
	label := ask[string](t, page, "document.querySelector('.tasks tbody tr.row td').textContent")
	if !regexp.MustCompile(`^` + kind + ` \d+$`).MatchString(label) {
		t.Errorf("the task that ran longest is %q on the page, a %s in the log", label, kind)
	}
	expect(t, exitOK, []string{longest + " (" + label + ", #"}, "explain", "--dir", home, "m", label)
	// A click on a row shows the attempt's details and its node.
	do(t, page, chromedp.Click(".tasks tbody tr.row", chromedp.ByQuery))
	expectText(t, page, ".timeline .detail", longest)
	expectText(t, page, ".timeline .detail",
		one[string](t, home, "SELECT node FROM v_tasks WHERE run = 'm' AND workflow || '/' || task = ?", longest))
	// Filter and search.
	do(t, page, chromedp.SendKeys(".tasks input", "mDiffFit", chromedp.ByQuery))
	count := one[int](t, home, "SELECT count(*) FROM v_tasks WHERE run = 'm' AND kind = 'mDiffFit'")
	expectText(t, page, ".tasks [role=status]", fmt.Sprintf("%d of 25", count))
	do(t, page, chromedp.SendKeys(".timeline input", "mProjectPP", chromedp.ByQuery))
	searched := one[int](t, home, "SELECT count(*) FROM v_tasks WHERE run = 'm' AND kind = 'mProjectPP'")
	expectText(t, page, ".timeline [role=status]", fmt.Sprintf("%d found", searched))
	// The keyboard: zooming in leaves fewer bars, 0 brings all back, n goes from attempt to attempt.
	do(t, page, chromedp.Focus(".timeline canvas", chromedp.ByQuery), chromedp.KeyEvent("+"), chromedp.KeyEvent("+"),
		chromedp.KeyEvent("+"))
	if drawn := ask[int](t, page, "+document.querySelector('.timeline canvas').dataset.drawn"); drawn >= 25 ||
		drawn == 0 {
		t.Errorf("zoomed in, the timeline has %d bars", drawn)
	}
	do(t, page, chromedp.KeyEvent("0"), chromedp.KeyEvent(kb.Escape), chromedp.KeyEvent("n"))
	first := one[string](t, home,
		"SELECT workflow || '/' || task FROM v_tasks WHERE run = 'm' ORDER BY started_s, task LIMIT 1")
	expectText(t, page, ".timeline .detail", strings.Split(first, "/")[0]+"/")
	if drawn := ask[int](t, page, "+document.querySelector('.timeline canvas').dataset.drawn"); drawn != 25 {
		t.Errorf("after zooming out the timeline has %d bars", drawn)
	}
}

// Names from a trace are text and nothing else; the page's policy lets no other script run.
func TestNamesOfATraceDoThePageNoHarm(t *testing.T) {
	home := t.TempDir()
	names := []string{
		"<script>window.harm = 1</script>",
		`"><img src=x onerror="window.harm = 2">`,
		"\u202eright-to-left\u202c",
		strings.Repeat("long", 2500),
		"</script><b>",
	}
	var tasks []string
	for i, n := range names {
		tasks = append(tasks, fmt.Sprintf(`{"name": %q, "id": "t%d", "command": {"program": %[1]q}, "runtime": 1}`, n, i))
	}
	dir := writeFiles(t, map[string]string{"w.json": `{"name": "a <i>name</i>", "schemaVersion": "1.4", "workflow":
		{"tasks": [` + strings.Join(tasks, ",") + `]}}`})
	file := filepath.Join(home, "run.html")
	expect(t, exitOK, nil, "simulate", "--quiet", "--dir", home, "--name", "h", filepath.Join(dir, "w.json"))
	expect(t, exitOK, nil, "report", "h", "--dir", home, "--html", file)
	page := open(t, file)
	if harm := ask[bool](t, page, "'harm' in window || document.querySelectorAll('main img, main script, main b "+
		"b').length > 0"); harm {
		t.Error("a name of the trace became a part of the page")
	}
	expectText(t, page, ".tasks [role=status]", "5 of 5")
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "default-src 'none'") ||
		strings.Contains(string(text), "window.harm") {
		t.Errorf("the policy is missing or a name stands in the file as it is (%v)", err)
	}
}

// Results are on the page with pictures, whatever they are called; a page of any width has no part beyond its edge, and
// all that can be pressed or seen has a name.
func TestThePageFitsItsReaders(t *testing.T) {
	home, file := mosaic(t)
	picture := `<img src=x onerror="window.harm = 1">.png`
	results := filepath.Join(home, "m", "results", "montage-25")
	must(t, os.MkdirAll(results, 0o755))
	f, err := os.Create(filepath.Join(results, picture))
	must(t, err)
	must(t, errors.Join(png.Encode(f, image.NewGray(image.Rect(0, 0, 2000, 900))), f.Close()))
	expect(t, exitOK, nil, "report", "m", "--dir", home, "--html", file)
	page := open(t, file)
	expectText(t, page, "#results", picture)
	if got := ask[string](t, page, "document.querySelector('#results a').href"); got != "file://"+
		(&url.URL{Path: filepath.Join(results, picture)}).EscapedPath() {
		t.Errorf("the picture is linked as %s", got)
	}
	if w := ask[int](t, page, "document.querySelector('#results img').naturalWidth"); w != 360 {
		t.Errorf("the small picture is %d pixels wide", w)
	}
	if ask[bool](t, page, "'harm' in window") {
		t.Error("the name of a result became a part of the page")
	}
	do(t, page, chromedp.Click("#more summary", chromedp.ByQuery), chromedp.WaitVisible("#policies .other",
		chromedp.ByQuery), chromedp.Evaluate("document.querySelector('.tasks tr.row').click()", nil))
	for _, width := range []int64{400, 800, 1400} {
		do(t, page, chromedp.EmulateViewport(width, 900))
		if n := ask[int64](t, page, "document.documentElement.scrollWidth"); n > width {
			t.Errorf("at %d pixels the page is %d wide", width, n)
		}
		if wide := ask[[]string](t, page, "[...document.querySelectorAll('.run')].filter(r => r.scrollWidth > "+
			"r.clientWidth + 1).map(r => r.closest('section').id)"); width > 400 && len(wide) > 0 {
			t.Errorf("at %d pixels these sections scroll sideways: %v", width, wide)
		}
	}
	var nodes []*accessibility.Node
	do(t, page, chromedp.ActionFunc(func(ctx context.Context) (err error) {
		nodes, err = accessibility.GetFullAXTree().Do(ctx)
		return err
	}))
	headings := 0
	for _, n := range nodes {
		var role, name string
		if n.Ignored || json.Unmarshal(n.Role.Value, &role) != nil || n.Name != nil &&
			json.Unmarshal(n.Name.Value, &name) != nil {
			continue
		}
		switch role {
		case "heading":
			headings++
		case "button", "link", "image", "searchbox", "combobox", "slider", "region", "progressbar":
			if strings.TrimSpace(name) == "" {
				t.Errorf("a %s has no name", role)
			}
		}
	}
	if headings < 10 {
		t.Errorf("a screen reader finds %d headings", headings)
	}
}
