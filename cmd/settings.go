package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/own"
	"gantry/executor/sim/hostmodel"
	"gantry/planner"
	"gantry/planner/predict"
	"gantry/trace"
	"gantry/trace/scenario"
)

func readSettings(c *cli.Context) (*session.Settings, error) {
	s := &session.Settings{Policy: own.In(".", c.String("policy")), Seed: c.Uint64("seed"),
		TimeScale: c.Float64("time-scale"), SizeScale: c.Float64("size-scale"),
		Image: c.String("image"), Emulate: c.Bool("emulate"), Fit: c.Bool("fit"), FailFast: c.Bool("fail-fast"),
		RejectLate: c.Bool("reject-late"), Retries: separated(c.StringSlice("retry")), Count: c.Int("count"),
		Starts: c.Int("starts"), Startup: c.Duration("startup")}
	if s.TimeScale == 0 && c.Command.Name == "simulate" {
		return nil, exit.Usagef("--time-scale 0: simulated tasks take time; give a number above 0")
	}
	if c.IsSet("retries") {
		n := strconv.Itoa(c.Int("retries"))
		s.Retries = append([]string{"exit-code=" + n, "output-missing=" + n}, s.Retries...)
	}
	if _, err := session.RetryRules(s.Retries); err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	if err := gather(c, "cdi-dir", exit.Host, filepath.Abs, &s.CDI); err != nil {
		return nil, err
	}
	cluster, err := readCluster(c.String("cluster"), s.CDI)
	if err != nil {
		return nil, err
	}
	s.Cluster, s.Tokens = cluster.Draw(s.Seed), cluster.Resources
	return s, readTokens(c, s)
}

// readCluster reads a cluster file, or makes one node of this host.
func readCluster(path string, cdi []string) (*scenario.Cluster, error) {
	if path == "" {
		return session.HostCluster(cdi)
	}
	f, err := openText(path)
	if err != nil {
		return nil, exit.Inputf("cluster file: %w", err)
	}
	defer f.Close()
	c, err := scenario.ReadCluster(f, path)
	if err != nil {
		return nil, exit.With(exit.Input, err)
	}
	executor.FillDisk(c)
	return c, nil
}

// readGiven reads these flags into the settings. Of secrets these have the names only.
func readGiven(c *cli.Context, s *session.Settings) (err error) {
	env := []string{}
	for _, file := range c.StringSlice("env-file") {
		text, err := readText(file)
		if err != nil {
			return exit.Inputf("--env-file: %w", err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			line = strings.TrimLeft(strings.TrimSuffix(line, "\r"), " \t")
			if line == "" || line[0] == '#' {
				continue
			}
			if line, err = variable(line); err != nil {
				return exit.Inputf("--env-file: %s:%d: %w", file, i+1, err)
			}
			env = append(env, line)
		}
	}
	for _, text := range c.StringSlice("env") {
		if text, err = variable(text); err != nil {
			return exit.Usagef("--env: %w", err)
		}
		env = append(env, text)
	}
	s.Env = executor.MergeEnv(nil, env)
	mount := func(text string) (string, error) {
		m, err := session.MountOf(text)
		if err != nil {
			err = fmt.Errorf("%s: %w", text, err)
		}
		return m, err
	}
	if err := cmp.Or(gather(c, "mount", exit.Input, mount, &s.Mounts),
		gather(c, "network", exit.Usage, checked(executor.CheckNetwork), &s.Networks),
		gather(c, "secret", exit.Usage, session.SecretOf, &s.Secrets), s.Targets()); err != nil {
		return err
	}
	if s.Shell = c.String("shell"); c.IsSet("shell") {
		if _, err := trace.ShellWords(s.Shell); err != nil {
			return exit.Usagef("--shell %q: %w", s.Shell, err)
		}
	}
	_, err = s.SecretValues()
	return err
}

// take takes over the value of an option that is given.
func take[T any](c *cli.Context, name string, to *T) {
	if c.IsSet(name) {
		*to = c.Value(name).(T)
	}
}

// gather reads the values of an option that may be repeated. An error has the code, unless it has one.
func gather(c *cli.Context, name string, code int, read func(string) (string, error), to *[]string) error {
	for _, text := range c.StringSlice(name) {
		value, err := read(text)
		if err != nil {
			return exit.Or(code, fmt.Errorf("--%s %w", name, err))
		}
		*to = append(*to, value)
	}
	return nil
}

// checked reads a text that stays as it is.
func checked(check func(string) error) func(string) (string, error) {
	return func(text string) (string, error) { return text, check(text) }
}

// variable completes an environment variable. The error does not repeat the value.
func variable(text string) (string, error) {
	name, _, ok := strings.Cut(text, "=")
	if name == "" || strings.ContainsAny(name, " \t\x00") {
		return "", errors.New("write NAME or NAME=VALUE")
	}
	if ok {
		return text, nil
	}
	value, ok := os.LookupEnv(name)
	if !ok {
		return "", fmt.Errorf("%s is not set in gantry's environment: set it, or write %s=VALUE", name, name)
	}
	return name + "=" + value, nil
}

// readEstimates takes the flags over; usual is the estimator where nothing is said. Other settings stay as they are.
func readEstimates(c *cli.Context, s *session.Settings, usual string) error {
	if c.IsSet("errors") || s.Errors == "" {
		s.Errors = c.String("errors")
	}
	m, err := predict.ParseErrorModel(s.Errors)
	if err != nil {
		return exit.Usagef("--errors: %w", err)
	}
	s.Errors = m.String()
	switch {
	case c.IsSet("estimator"):
		s.Estimator = c.String("estimator")
	case c.IsSet("errors") && m.Kind != predict.NoError:
		s.Estimator = "declared" // learned would use its measurements instead
	default:
		s.Estimator = usual
	}
	e, err := predict.ParseSpec(s.Estimator)
	if err != nil {
		return exit.Usagef("--estimator: %w", err)
	}
	if e.Kind == predict.KindOracle && !session.Capabilities(s.Runtime).Virtual {
		return exit.Usagef("--estimator oracle: only a simulation knows the true runtimes; use declared for " +
			"those of the trace")
	}
	if c.IsSet("predict-memory") || s.Estimator != usual {
		s.PredictMemory = c.String("predict-memory")
	}
	if _, err := predict.ParseAim(s.PredictMemory); err != nil && s.PredictMemory != "" {
		return exit.Usagef("--predict-memory: %w", err)
	}
	if s.PredictMemory != "" && e.Kind != predict.KindTrained {
		return exit.Usagef("--predict-memory needs a model: add --estimator trained")
	}
	return nil
}

func readHostModel(c *cli.Context, s *session.Settings) (err error) {
	s.StartupGiven = c.IsSet("startup")
	stored := func() (*hostmodel.Model, error) {
		return session.StoredHostModel(c.Context, homeOf(c), s.Runtime, c.String("measured"))
	}
	name := c.String("host-model")
	switch {
	case name == "none", name == "" && (s.StartupGiven || session.CheckHost(s.Cluster, c.Bool("oversubscribe")) != nil):
	case name == "":
		if s.Host, err = stored(); err != nil && !errors.Is(err, hostmodel.ErrNone) {
			term.New(c.Bool("quiet") || c.Bool("json")).Warn("the host model is not used: %v", err)
		}
	case name == "this":
		if s.Host, err = stored(); err != nil {
			return exit.Inputf("--host-model this: %w", err)
		}
	default:
		text, err := readText(name)
		if err != nil {
			return exit.Inputf("--host-model: %w", err)
		}
		if s.Host, err = hostmodel.Decode(text); err != nil {
			return exit.Inputf("--host-model %s: %w", name, err)
		}
		if f := session.HostFacts(); !session.Capabilities(s.Runtime).Virtual {
			if err := s.Host.Fits(hostmodel.Host{Name: f.Name, Kernel: f.Release, Cores: f.Cores,
				Runtime: s.Runtime}); err != nil {
				return exit.Inputf("--host-model %s: %w", name, err)
			}
		}
	}
	return nil
}

// readAs takes over how workflows are to be read, as far as the command line says it.
func readAs(c *cli.Context, s *session.Settings, in *session.Inputs) (err error) {
	in.MaxInput = sizeOf(c, "max-input")
	in.Repair = c.Bool("repair")
	if in.Inputs, in.Dirs, err = session.InputsDirs(c.StringSlice("inputs")); err != nil {
		return err
	}
	if c.IsSet("catalog") {
		s.Catalogs = nil
	}
	if err := gather(c, "catalog", exit.Input, filepath.Abs, &s.Catalogs); err != nil {
		return err
	}
	if c.IsSet("results") {
		s.Results = c.StringSlice("results")
	}
	in.Results = s.Results
	defaults, _ := c.App.Metadata[defaultsFile].([]string)
	in.Lenient = slices.Contains(defaults, "results")
	take(c, "site", &s.Site)
	take(c, "enforce-walltime", &s.EnforceWalltime)
	take(c, "container-mounts", &s.ContainerMounts)
	if s.Define == nil {
		s.Define = map[string]string{}
	}
	in.Given, in.GivenSite, in.Used = *c.Generic("define").(*definitions), c.String("site"), map[string]bool{}
	maps.Copy(s.Define, in.Given)
	in.Catalogs, in.Site, in.EnforceWalltime, in.Define, in.Shell = s.Catalogs, s.Site, s.EnforceWalltime, s.Define,
		s.Shell
	return nil
}

func readSlurm(c *cli.Context, s *session.Settings, on bool) (err error) {
	for _, flag := range []string{"slurm-job", "shared", "node-runtime"} {
		if c.IsSet(flag) && !on {
			return exit.Usagef("--%s: it is for --runtime slurm", flag)
		}
	}
	s.NodeRuntime = c.String("node-runtime")
	if s.NodeRuntime != "" && !slices.Contains(session.NodeRuntimes, s.NodeRuntime) {
		return exit.Usagef("--node-runtime %s: programs run in containers: choose %s", s.NodeRuntime,
			strings.Join(session.NodeRuntimes, " or "))
	}
	if c.IsSet("shared") {
		if s.Shared, err = filepath.Abs(c.String("shared")); err != nil {
			return exit.With(exit.Host, err)
		}
		if st, err := os.Stat(s.Shared); err != nil {
			return exit.Hostf("--shared: %w", trace.Plain(err))
		} else if !st.IsDir() {
			return exit.Hostf("--shared %s: it is no directory", s.Shared)
		}
	}
	return nil
}

func readResultsDir(c *cli.Context, s *session.Settings) (err error) {
	if !c.IsSet("results-dir") {
		return nil
	}
	dir := c.String("results-dir")
	if dir == "" {
		return exit.Usagef("--results-dir: name a directory")
	}
	s.ResultsDir, err = filepath.Abs(dir)
	return exit.Or(exit.Host, err)
}

// autoRuntime lets gantry choose one without a daemon where this host can.
const autoRuntime = "auto"

// chosenRuntime is the one that the command line names, else one that this host has. Servers, and images
// that are built, are for many users: they take an engine that others can see.
func chosenRuntime(c *cli.Context) string {
	auto := c.String("runtime") == autoRuntime || c.Command.Name != "serve" && c.Command.Name != "image"
	if c.IsSet("runtime") && c.String("runtime") != autoRuntime {
		return c.String("runtime")
	} else if auto {
		return session.AutoRuntime(c.Context, c.IsSet("network"))
	}
	name := session.HostRuntime(c.Context, session.UsualRuntime.Name)
	if name != session.UsualRuntime.Name && os.Geteuid() == 0 && !c.Bool("quiet") { // else this process begins again
		fmt.Fprintf(c.App.ErrWriter, "no Docker Engine answers: gantry takes --runtime %s\n", name)
	}
	return name
}

// readTokens reads the resources that the user declares, and the tasks that need them or GPUs.
func readTokens(c *cli.Context, s *session.Settings) error {
	for _, text := range c.StringSlice("resource") {
		x, err := executor.ReadToken(text)
		if err != nil {
			return exit.Usagef("--resource %w", err)
		}
		if slices.ContainsFunc(s.Tokens, func(y executor.Token) bool { return y.Name == x.Name }) {
			return exit.Usagef("--resource %s is given twice, or also by the cluster file", x.Name)
		}
		if s.Tokens = append(s.Tokens, x); len(s.Tokens) > planner.MostTokens {
			return exit.Usagef("--resource: a run has at most %d of them", planner.MostTokens)
		}
	}
	return cmp.Or(gather(c, "need", exit.Usage, checked(executor.CheckNeeds), &s.Needs),
		gather(c, "gpus", exit.Usage, checked(executor.CheckGPUs), &s.GPUs))
}
