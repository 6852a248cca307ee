package sbatch

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// column is what squeue and sacct print of a job.
type column struct {
	letter, long string // of --format and --Format of squeue; "": squeue has none
	title        string // of squeue
	account      string // name and title of sacct; "": sacct has none
	width        int    // in a table of sacct
	show         func(r *Row, v view) string
}

var columns = []column{
	{"%a", "account", "ACCOUNT", "Account", 10, func(r *Row, v view) string { return cmp.Or(r.Account, v.null) }},
	{"", "", "", "AllocCPUS", 10, func(r *Row, _ view) string { return allocated(r) }},
	{"", "", "", "AllocNodes", 10, func(r *Row, _ view) string { return min(allocated(r), "1") }},
	{"%B", "batchhost", "EXEC_HOST", "", 0, func(r *Row, _ view) string { return cmp.Or(r.Node, "n/a") }},
	{"%k", "comment", "COMMENT", "Comment", 14, func(r *Row, v view) string { return cmp.Or(r.Comment, v.null) }},
	{"%o", "command", "COMMAND", "", 0, func(r *Row, v view) string { return cmp.Or(r.Command, v.null) }},
	{"%C", "numcpus", "CPUS", "ReqCPUS", 8, func(r *Row, _ view) string { return strconv.Itoa(r.CPUs) }},
	{"%c", "mincpus", "MIN_CPUS", "", 0, func(r *Row, _ view) string { return strconv.Itoa(r.CPUs) }},
	{"", "", "", "NCPUS", 10, func(r *Row, _ view) string { return allocated(r) }},
	{"", "", "", "CPUTimeRAW", 10, func(r *Row, v view) string {
		return strconv.FormatInt(int64(r.ran(v.now)/time.Second)*int64(r.CPUs), 10)
	}},
	{"%E", "dependency", "DEPENDENCY", "", 0, func(r *Row, v view) string {
		if len(r.After) == 0 || r.State != Pending {
			return v.null
		}
		return strings.Join(r.After, "(unfulfilled),") + "(unfulfilled)"
	}},
	// The highest code of job steps, of which there are none.
	{"", "", "", "DerivedExitCode", 15, func(*Row, view) string { return "0:0" }},
	{"", "", "", "Elapsed", 10, func(r *Row, v view) string { return longClock(r.ran(v.now)) }},
	{"", "", "", "ElapsedRaw", 10, func(r *Row, v view) string {
		return strconv.FormatInt(int64(r.ran(v.now)/time.Second), 10)
	}},
	{"%e", "endtime", "END_TIME", "", 0, func(r *Row, v view) string { return v.stamp(r.Ended, r.Ends) }},
	{"", "", "", "End", 19, func(r *Row, v view) string { return v.stamp(r.Ended) }},
	{"", "", "", "ExitCode", 8, func(r *Row, _ view) string { return r.exitCode() }},
	{"%F", "arrayjobid", "ARRAY_JOB_ID", "", 0, func(r *Row, _ view) string {
		return strconv.FormatInt(cmp.Or(r.ArrayID, r.ID), 10)
	}},
	{"%K", "arraytaskid", "ARRAY_TASK_ID", "", 0, func(r *Row, _ view) string {
		if r.ArrayID == 0 {
			return "N/A"
		}
		return strconv.Itoa(r.Index)
	}},
	{"%g", "groupname", "GROUP", "Group", 9, func(_ *Row, v view) string { return v.null }},
	{"%i", "jobarrayid", "JOBID", "JobID", 12, func(r *Row, _ view) string { return r.id() }},
	{"%A", "jobid", "JOBID", "JobIDRaw", 12, func(r *Row, _ view) string { return strconv.FormatInt(r.ID, 10) }},
	{"%j", "name", "NAME", "JobName", 10, func(r *Row, _ view) string { return r.Name }},
	{"%L", "timeleft", "TIME_LEFT", "", 0, func(r *Row, v view) string {
		if r.Limit == 0 {
			return limitText(0)
		}
		return clock(max(0, r.Limit-r.ran(v.now)))
	}},
	{"%l", "timelimit", "TIME_LIMIT", "", 0, func(r *Row, _ view) string { return limitText(r.Limit) }},
	{"", "", "", "Timelimit", 10, func(r *Row, _ view) string {
		if r.Limit == 0 {
			return limitText(0)
		}
		return longClock(r.Limit)
	}},
	{"%M", "timeused", "TIME", "", 0, func(r *Row, v view) string { return clock(r.ran(v.now)) }},
	{"%m", "minmemory", "MIN_MEMORY", "ReqMem", 10, func(r *Row, _ view) string { return memoryText(r.Memory) }},
	{"", "", "", "MaxRSS", 10, func(r *Row, _ view) string {
		peak := r.Peak
		if r.Memory > 0 { // the kernel may count a few pages more than there were
			peak = min(peak, r.Memory)
		}
		if peak == 0 {
			return ""
		}
		return fmt.Sprintf("%dK", (peak+1023)>>10)
	}},
	{"%N", "nodelist", "NODELIST", "", 0, func(r *Row, _ view) string { return r.Node }},
	{"", "", "", "NodeList", 15, func(r *Row, _ view) string { return cmp.Or(r.Node, "None assigned") }},
	{"%D", "numnodes", "NODES", "NNodes", 8, func(*Row, view) string { return "1" }},
	{"%P", "partition", "PARTITION", "Partition", 10, func(r *Row, _ view) string { return r.Partition }},
	// All jobs have the same, as the policy of the server decides the order. 0 would be a job that is held.
	{"%p", "priority", "PRIORITY", "", 0, func(*Row, view) string { return "0.00000000023283" }},
	{"%Q", "prioritylong", "PRIORITY", "", 0, func(*Row, view) string { return "1" }},
	{"%q", "qos", "QOS", "QOS", 10, func(*Row, view) string { return "normal" }},
	// The node, or why a job waits or failed.
	{"%R", "reasonlist", "NODELIST(REASON)", "", 0, func(r *Row, _ view) string {
		switch r.State {
		case Pending, Failed, Timeout, OutOfMemory:
			return "(" + cmp.Or(r.Reason, "None") + ")"
		}
		return r.Node
	}},
	{"%r", "reason", "REASON", "Reason", 22, func(r *Row, _ view) string { return cmp.Or(r.Reason, "None") }},
	{"%S", "starttime", "START_TIME", "", 0, func(r *Row, v view) string { return v.stamp(r.Started, r.Begins) }},
	{"", "", "", "Start", 19, func(r *Row, v view) string { return v.stamp(r.Started) }},
	{"%T", "state", "STATE", "", 0, func(r *Row, _ view) string { return r.State.String() }},
	{"", "", "", "State", 10, func(r *Row, _ view) string {
		if r.State == Cancelled && r.By != nil {
			return fmt.Sprintf("%s by %d", r.State, *r.By)
		}
		return r.State.String()
	}},
	{"%t", "statecompact", "ST", "", 0, func(r *Row, _ view) string { return r.State.Compact() }},
	{"%V", "submittime", "SUBMIT_TIME", "Submit", 19, func(r *Row, v view) string { return v.stamp(r.Submitted) }},
	{"", "", "", "TotalCPU", 10, func(r *Row, _ view) string { return longClock(r.CPUTime) }},
	{"%U", "userid", "UID", "UID", 6, func(r *Row, _ view) string { return strconv.Itoa(r.UID) }},
	{"%u", "username", "USER", "User", 9, func(r *Row, _ view) string { return r.User }},
	{"%Y", "schednodes", "SCHEDNODES", "", 0, func(_ *Row, v view) string { return v.null }},
	{"%Z", "workdir", "WORK_DIR", "WorkDir", 20, func(r *Row, _ view) string { return r.Dir }},
}

// known lists the columns that have a name of a kind.
func known(name func(c column) string) string {
	var all []string
	for _, c := range columns {
		if n := name(c); n != "" {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// allocated is how many CPUs a job has or had.
func allocated(r *Row) string {
	if r.Started.IsZero() {
		return "0"
	}
	return strconv.Itoa(r.CPUs)
}

// longClock writes a time as sacct does: 00:01:00, 2-03:00:00.
func longClock(d time.Duration) string {
	s := int64(d / time.Second)
	out := fmt.Sprintf("%02d:%02d:%02d", s/3600%24, s/60%60, s%60)
	if days := s / 86400; days > 0 {
		out = fmt.Sprintf("%d-%s", days, out)
	}
	return out
}
