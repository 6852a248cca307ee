package sbatch

// Cancel is a request to scancel.
type Cancel struct {
	Request
	Quiet bool
}

// ParseCancel reads a command line of scancel, without the command's name. Unlike that of C, it takes options after
// jobs, too.
func ParseCancel(args []string, me string) (*Cancel, error) {
	x := &Cancel{}
	c := &call{Request: &x.Request, Cancel: x, me: me}
	for len(args) > 0 {
		opts, rest, err := getopt(scancelOptions, args)
		if err == nil {
			err = c.take(opts)
		}
		if err != nil || x.Ask != Submit {
			return x, err
		}
		for len(rest) > 0 && (rest[0] == "" || rest[0][0] != '-') {
			if err := x.Select.jobs(rest[0]); err != nil {
				return nil, err
			}
			rest = rest[1:]
		}
		args = rest
	}
	s := &x.Select
	if s.Jobs == nil && s.States == nil && len(s.Users)+len(s.Partitions)+len(s.Accounts)+len(s.Names) == 0 {
		return nil, usagef("no job is named")
	}
	return x, nil
}
