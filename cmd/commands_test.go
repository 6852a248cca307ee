package cmd

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"gantry/cmd/internal/session"
)

// check --commands and run --dry-run print the same line of each task, and bash does with it as a run does.
func TestTheFinalCommandOfEveryTaskIsPrinted(t *testing.T) {
	const pegasus = `pegasus: "5.0.4"
name: p
jobs:
- {id: j, name: printf, arguments: ["'%s|' $WORDS", '"$WORDS" a\ b', "'it''s $WORDS' ${HOME}"],
   profiles: {env: {WORDS: "one two"}}, stdout: o}
- {id: k, name: prog, arguments: ["$UNSET *.txt"]}
`
	const wf = `{"name":"w","schemaVersion":"1.5","workflow":{"specification":{"tasks":[
{"id":"m\nforged: x","name":"m","parents":[],"children":[]},{"id":"e","name":"e","parents":[],"children":[]}],
"files":[]},"execution":{"tasks":[{"id":"m\nforged: x","command":"echo 'a\n  b\\c'\nfalse | cat; echo \"no\""}]}}}`
	for name, c := range map[string]struct{ text, task, line, prints string }{
		"quotes.makeflow": {text: "N=4\nW=a  b\no:\n\tprintf '%s\\\\n' \"$W\" 'it\"s' \"\\$((N+$N))\" \\\\$N\n",
			task: "o", prints: "a  b\nit\"s\n4\n4\n"},
		"pegasus.yml": {text: pegasus, task: "j",
			line:   `printf '%s|' one two 'one two' 'a b' 'its $WORDS' /tmp >o`,
			prints: "one|two|one two|a b|its $WORDS|/tmp|"},
		"other.yml": {text: pegasus, task: "k", line: "prog $UNSET *.txt"},
		"lines.json": {text: wf, task: "m\nforged: x", line: `/bin/sh -c $'set -e; command set -o pipefail ` +
			`2>/dev/null || :; echo \'a\n  b\\c\'\nfalse | cat; echo "no"'`},
		"none.json": {text: wf, task: "e"},
	} {
		flow := written(t, name, c.text)
		var checked struct{ Commands []taskCommand }
		out := expect(t, exitOK, nil, "check", "--commands", "--json", flow)
		must(t, json.Unmarshal([]byte(out), &checked))
		line := "none"
		for _, x := range checked.Commands {
			if x.Task == c.task {
				line = x.Command
			}
		}
		if c.line != line && name != "quotes.makeflow" {
			t.Errorf("%s: the command is\n%s\nwant\n%s", name, line, c.line)
		}
		dry := []string{"run", "--dry-run", "--runtime", "null", "--image", "any", "--dir=" + t.TempDir(), flow}
		var d session.DryRun
		must(t, json.Unmarshal([]byte(expect(t, exitOK, nil, append(dry, "--json")...)), &d))
		for _, x := range d.Steps {
			if x.Task == c.task && x.Command != line {
				t.Errorf("%s: the run would start\n%s\nnot\n%s", name, x.Command, line)
			}
		}
		shows := strings.ReplaceAll(c.task, "\n", "^J") + ": " + line
		if line == "" {
			shows += "emulated"
		} else {
			expect(t, exitOK, []string{"/" + shows + "\n"}, dry...)
		}
		expect(t, exitOK, []string{"\n" + shows + "\n"}, "check", "--commands", flow)
		expect(t, exitInput, nil, "check", "--commands", written(t, "w.yaml", "workflows:\n- {trace: "+flow+"}\n"))
		if c.prints == "" {
			continue
		}
		cmd := exec.Command("bash", "-c", line)
		if strings.HasSuffix(line, " >o") {
			cmd = exec.Command("bash", "-c", line+"; cat o")
		}
		cmd.Dir = t.TempDir()
		if out, err := cmd.CombinedOutput(); string(out) != c.prints {
			t.Errorf("%s: bash prints %q, want %q (%v) of\n%s", name, out, c.prints, err, line)
		}
	}
}
