package sbatch

// Cancel is a request to scancel.
type Cancel struct {
	Ask    Ask
	Select Select
	Quiet  bool
	Notes  []string
}

var scancelOptions = []option{
	{long: "account", short: "A", takes: value},
	{long: "batch", short: "b", refuse: "scancel ends whole jobs: it sends no signals"},
	{long: "clusters", short: "M", takes: value, refuse: oneHost},
	{long: "ctld", report: oneHost},
	{long: "full", short: "f", refuse: "scancel ends whole jobs: it sends no signals"},
	{long: "help"},
	{long: "hurry", short: "H", report: "gantry has no burst buffers"},
	{long: "interactive", short: "i", refuse: "name the jobs"},
	{long: "me"},
	{long: "name", short: "n", takes: value},
	{long: "jobname", takes: value, refuse: "use --name"},
	{long: "nodelist", short: "w", takes: value, refuse: oneHost},
	{long: "partition", short: "p", takes: value},
	{long: "qos", short: "q", takes: value, refuse: noAccounts},
	{long: "quiet", short: "Q"},
	{long: "reservation", short: "R", takes: value, refuse: oneHost},
	{long: "sibling", takes: value, refuse: oneHost},
	{long: "signal", short: "s", takes: value},
	{long: "state", short: "t", takes: value},
	{long: "usage"},
	{long: "user", short: "u", takes: value},
	{long: "verbose", short: "v"},
	{long: "version", short: "V"},
	{long: "wckey", takes: value, refuse: noAccounts},
}

// ParseCancel reads a command line of scancel, without the command's name. Unlike that of C, it takes options after
// jobs, too.
func ParseCancel(args []string, me string) (*Cancel, error) {
	c := &Cancel{}
	for len(args) > 0 {
		opts, rest, err := getopt(scancelOptions, args)
		if err != nil {
			return nil, err
		}
		notes, err := check(opts)
		if err != nil {
			return nil, err
		}
		c.Notes = append(c.Notes, notes...)
		for _, o := range opts {
			switch o.long {
			case "help", "usage":
				return &Cancel{Ask: Help}, nil
			case "version":
				return &Cancel{Ask: Version}, nil
			case "quiet":
				c.Quiet = true
			case "signal":
				switch o.value {
				case "TERM", "SIGTERM", "15", "KILL", "SIGKILL", "9", "INT", "SIGINT", "2":
					c.Notes = append(c.Notes, "--signal="+o.value+
						": gantry ends the job, first with TERM and then with KILL")
				default:
					return nil, usagef("--signal: scancel ends jobs, and sends no other signals: leave it out")
				}
			default:
				if _, err := c.Select.option(o, me); err != nil {
					return nil, usagef("%s: %w", o.name(), err)
				}
			}
		}
		for len(rest) > 0 && (rest[0] == "" || rest[0][0] != '-') {
			if err := c.Select.jobs(rest[0]); err != nil {
				return nil, err
			}
			rest = rest[1:]
		}
		args = rest
	}
	s := &c.Select
	if s.Jobs == nil && s.States == nil && len(s.Users)+len(s.Partitions)+len(s.Accounts)+len(s.Names) == 0 {
		return nil, usagef("no job is named")
	}
	return c, nil
}
