package sbatch

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Reasons that several options share.
const (
	oneHost = "gantry runs on one host, and its planner chooses the virtual node"
	noGPU   = "gantry gives out GPUs of one kind: --gpus=N or --gres=gpu:N says how many, --gres=mps:N " +
		"asks for N hundredths of one"
	planned    = "the policy of the server decides the order"
	noSteps    = "gantry has no job steps"
	noHold     = "gantry holds no jobs back: use --dependency, or submit later"
	noMail     = "gantry sends no mail"
	noTopology = "gantry gives out shares of CPU time, not sockets, cores or threads"
	noAccounts = "gantry has no such accounting"
	noBuffers  = "gantry has no burst buffers"
	noLicenses = "gantry show has what waits for them"
	noSignals  = "scancel ends whole jobs: it sends no signals"
	useJSON    = "gantry queue --json has all that gantry knows"
	ownUser    = "a job runs as the user who submitted it"
	cpuTime    = "limits of CPU time always hold"
)

// sbatchOptions are all of sbatch of Slurm 22.05, --container as gantry means it, and gantry's own: --workflow,
// --tail and --retries.
var sbatchOptions = slices.Concat(
	asks(Help, "help,h usage"), asks(Version, "version,V"),
	refused(oneHost, "cluster-constraint= clusters,M= constraint,C= exclude,x= nodefile,F= nodelist,w= reboot "+
		"reservation="),
	reported(oneHost, "contiguous delay-boot= no-kill,k[=] power= spread-job switches= use-min-nodes wait-all-nodes="),
	refused(noGPU, "cpus-per-gpu= gpu-bind= gpu-freq= gpus-per-socket= gres-flags= mem-per-gpu= ntasks-per-gpu= "+
		"tres-per-task="),
	refused(noTopology, "core-spec,S= thread-spec="),
	reported(noTopology, "cores-per-socket= extra-node-info,B= hint= mem-bind= ntasks-per-core= ntasks-per-socket= "+
		"sockets-per-node= threads-per-core="),
	refused(noAccounts, "mcs-label="), reported(noAccounts, "qos,q= wckey="), refused(noBuffers, "bb= bbf="),
	refused(noHold, "begin,b= hold,H"), reported(noMail, "mail-type= mail-user="), refused(ownUser, "gid= uid="),
	reported(planned, "nice[=] priority="), reported(noSteps, "distribution,m="),
	refused(cpuTime, "overcommit,O"), reported(cpuTime, "oversubscribe,s"),
	refused("gantry sets no frequency", "cpu-freq="),
	refused("gantry submit --deadline gives a workflow a deadline", "deadline="),
	refused("nodes are shared: ask for all cores with --cpus-per-task", "exclusive[=]"),
	refused("name the variables with --export=NAME=VALUE", "export-file="),
	refused("a job has the environment of its image", "get-user-env[=]"),
	refused("the server decides which jobs have a network (gantry serve --network)", "network="),
	refused("a job has one try, unless --retries N, gantry's own option, gives it more", "requeue"),
	refused("gantry submit prints when a task is expected to start", "test-only"),
	refused("gantry sets no disk space aside", "tmp="),
	reported("gantry always measures: gantry show", "profile="),
	reported("the limits of a job are those of its container", "propagate[=]"),
	reported("the limit is that of --time", "time-min="),
	[]option{
		honoured("ignore-pbs", nil), honoured("no-requeue", nil), honoured("verbose,v", nil), honoured("wrap=", nil),
		honoured("array,a=", func(c *call, text string) (err error) {
			c.Job.Array, c.AtMost = nil, 0
			if text != "" {
				c.Job.Array, c.AtMost, err = indices(text)
			}
			return err
		}),
		into("account,A=", func(c *call) *string { return &c.Job.Account }),
		honoured("chdir,D=", func(c *call, text string) error {
			if c.Dir = path.Clean(text); !path.IsAbs(text) {
				c.Dir = path.Join(c.host.Dir, text)
			}
			return nil
		}),
		into("comment=", func(c *call) *string { return &c.Comment }),
		into("container=", func(c *call) *string { return &c.Container }),
		parsed("cpus-per-task,c=", count, func(c *call) *int { return &c.PerTask }),
		parsed("dependency,d=", dependencies, func(c *call) *[]After { return &c.After }),
		into("error,e=", func(c *call) *string { return &c.Error }),
		honoured("export=", func(c *call, text string) error { return c.Job.export(text, c.host) }),
		into("input,i=", func(c *call) *string { return &c.Input }),
		into("job-name,J=", func(c *call) *string { return &c.Name }),
		honoured("kill-on-invalid-dep=", func(_ *call, text string) error {
			switch text {
			case "yes":
				return nil
			case "no":
				return errors.New("a job whose dependency is not met any more is cancelled: write yes")
			}
			return fmt.Errorf("%q: write yes", text)
		}),
		honoured("mem=", func(c *call, text string) error {
			c.mem, c.memPerCPU = text, ""
			_, err := Memory(text)
			return err
		}),
		honoured("mem-per-cpu=", func(c *call, text string) error {
			c.mem, c.memPerCPU = "", text
			_, err := Memory(text)
			return err
		}),
		parsed("mincpus=", count, func(c *call) *int { return &c.minCPUs }),
		into("licenses,L=", func(c *call) *string { return &c.Job.Licenses }),
		parsed("gpus,G=", gpus, func(c *call) *int { return &c.gpus }),
		parsed("gpus-per-node=", gpus, func(c *call) *int { return &c.gpusPerNode }),
		parsed("gpus-per-task=", gpus, func(c *call) *int { return &c.gpusPerTask }),
		parsed("gres=", gpus, func(c *call) *int { return &c.gres }),
		into("nodes,N=", func(c *call) *string { return &c.nodes }),
		parsed("ntasks,n=", count, func(c *call) *int { return &c.Tasks }),
		parsed("ntasks-per-node=", count, func(c *call) *int { return &c.tasksPerNode }),
		honoured("open-mode=", func(c *call, text string) error {
			if c.Append = text == "append"; !c.Append && text != "truncate" {
				return fmt.Errorf("%q: write append or truncate", text)
			}
			return nil
		}),
		into("output,o=", func(c *call) *string { return &c.Output }),
		flag("parsable", func(c *call) { c.Parsable = true }),
		into("partition,p=", func(c *call) *string { return &c.Job.Partition }),
		flag("quiet,Q", func(c *call) { c.Job.Quiet = true }),
		honoured("signal=", func(c *call, text string) error { return c.Job.signal(text) }),
		honoured("retries=", func(c *call, text string) error {
			n, err := strconv.ParseUint(text, 10, 15)
			if c.Retries = int(n); err != nil {
				return fmt.Errorf("%q is not a whole number from 0 to 32767", text)
			}
			return nil
		}),
		parsed("tail=", seconds, func(c *call) *time.Duration { return &c.Job.Tail }),
		parsed("time,t=", Limit, func(c *call) *time.Duration { return &c.Job.Limit }),
		flag("wait,W", func(c *call) { c.Wait = true }),
		into("workflow=", func(c *call) *string { return &c.Workflow }),
	})

// sbatchVariables stand for options of sbatch: over those of the script, below those of the command line.
const sbatchVariables = `SBATCH_ACCOUNT account SBATCH_ARRAY_INX array SBATCH_CLUSTERS clusters SLURM_CLUSTERS clusters
SBATCH_CONSTRAINT constraint SBATCH_CONTAINER container SBATCH_CORE_SPEC core-spec SBATCH_CPUS_PER_GPU cpus-per-gpu
SBATCH_DISTRIBUTION distribution SBATCH_EXCLUSIVE exclusive SBATCH_EXPORT export SBATCH_GET_USER_ENV get-user-env
SBATCH_GPUS gpus SBATCH_GPUS_PER_NODE gpus-per-node SBATCH_GPUS_PER_TASK gpus-per-task SBATCH_GRES gres
SBATCH_HINT hint SBATCH_IGNORE_PBS ignore-pbs SBATCH_JOB_NAME job-name SBATCH_MEM_BIND mem-bind
SBATCH_MEM_PER_CPU mem-per-cpu SBATCH_MEM_PER_GPU mem-per-gpu SBATCH_MEM_PER_NODE mem SBATCH_NETWORK network
SBATCH_NO_REQUEUE no-requeue SBATCH_OPEN_MODE open-mode SBATCH_OVERCOMMIT overcommit SBATCH_PARTITION partition
SBATCH_PROFILE profile SBATCH_QOS qos SBATCH_REQUEUE requeue SBATCH_RESERVATION reservation SBATCH_SIGNAL signal
SBATCH_SPREAD_JOB spread-job SBATCH_THREAD_SPEC thread-spec SBATCH_TIMELIMIT time SBATCH_USE_MIN_NODES use-min-nodes
SBATCH_WAIT wait SBATCH_WCKEY wckey`

// selectors are the options by which squeue, scancel and sacct choose jobs.
var selectors = map[string]func(c *call, text string) error{
	"account":   list(func(s *Select) *[]string { return &s.Accounts }),
	"name":      list(func(s *Select) *[]string { return &s.Names }),
	"partition": list(func(s *Select) *[]string { return &s.Partitions }),
	"user":      list(func(s *Select) *[]string { return &s.Users }),
	"jobs":      func(c *call, text string) error { return c.Select.jobs(text) },
	"state": func(c *call, text string) (err error) {
		c.Select.States, err = stateSet(text)
		return err
	},
	"me": func(c *call, _ string) error {
		c.Select.Users = append(c.Select.Users, c.me)
		return nil
	},
}

func list(to func(s *Select) *[]string) func(c *call, text string) error {
	return func(c *call, text string) error {
		l := to(&c.Select)
		*l = append(*l, strings.Split(text, ",")...)
		return nil
	}
}

// selecting are those of one of the commands, which has its own names for some.
func selecting(names string) (all []option) {
	for name := range strings.FieldsSeq(names) {
		o := honoured(name, nil)
		switch o.long {
		case "uid":
			o.set = selectors["user"]
		case "states":
			o.set = selectors["state"]
		default:
			o.set = selectors[o.long]
		}
		all = append(all, o)
	}
	return all
}

var squeueOptions = slices.Concat(
	asks(Help, "help usage"), asks(Version, "version,V"),
	selecting("account,A= jobs,j= me name,n= partition,p= states,t= user,u="),
	refused(oneHost, "clusters,M= federation nodelist,w= reservation,R= sibling"),
	refused("elements of arrays are always listed one by one", "array-unique"),
	refused("use watch squeue, or gantry's live page", "iterate,i="), refused(useJSON, "json yaml"),
	refused(noLicenses, "licenses,L="), refused("amounts of memory have units", "noconvert"),
	refused(noAccounts, "qos,q="), refused("pipe the answer into sort", "sort,S="),
	refused(noSteps, "steps,s[=]"),
	ignored("all,a array,r hide local only-job-state priority,P verbose,v"), // nothing differs here
	[]option{
		honoured("start", nil), // ParseQueue looks for it
		flag("noheader,h", func(c *call) { c.Queue.Header = false }),
		flag("long,l", func(c *call) { c.long, c.format, c.parse = true, longTable, parseFormat }),
		honoured("format,o=", func(c *call, text string) error {
			c.long, c.format, c.parse = false, text, parseFormat
			return nil
		}),
		honoured("Format,O=", func(c *call, text string) error {
			c.long, c.format, c.parse = false, text, parseLongFormat
			return nil
		}),
	})

const squeueVariables = `SQUEUE_ACCOUNT account SQUEUE_FORMAT format SQUEUE_FORMAT2 Format SQUEUE_NAMES name
SQUEUE_PARTITION partition SQUEUE_STATES states SQUEUE_USERS user SQUEUE_SORT sort SLURM_CLUSTERS clusters`

var scancelOptions = slices.Concat(
	asks(Help, "help usage"), asks(Version, "version,V"),
	selecting("account,A= me name,n= partition,p= state,t= user,u="),
	refused(noSignals, "batch,b full,f"), refused(oneHost, "clusters,M= nodelist,w= reservation,R= sibling="),
	refused("name the jobs", "interactive,i"), refused("use --name", "jobname="), refused(noAccounts, "qos,q= wckey="),
	reported(oneHost, "ctld"), reported(noBuffers, "hurry,H"),
	[]option{honoured("verbose,v", nil),
		flag("quiet,Q", func(c *call) { c.Cancel.Quiet = true }),
		honoured("signal,s=", func(c *call, text string) error {
			switch text {
			case "TERM", "SIGTERM", "15", "KILL", "SIGKILL", "9", "INT", "SIGINT", "2":
				c.Notes = append(c.Notes, "--signal="+text+": gantry ends the job, first with TERM and then with KILL")
				return nil
			}
			return errors.New("scancel ends jobs, and sends no other signals: leave it out")
		}),
	})

var sacctOptions = slices.Concat(
	asks(Help, "help,h usage helpformat,e"), asks(Version, "version,V"),
	selecting("account,A= jobs,j= name= partition,r= state,s= uid,u= user="),
	refused("gantry show has what was measured", "completion,c"),
	refused("name the fields: --format=JobID,State,ExitCode", "long,l"),
	refused("amounts of memory are in KB, with a K", "units="),
	refused(noAccounts, "wckeys,W="), refused(useJSON, "json"),
	ignored("allocations,X duplicates,D noconvert verbose,v"), // a job has no steps
	[]option{
		flag("allusers,a", func(c *call) { c.everybody = true }),
		flag("brief,b", func(c *call) { c.format = accountBrief }),
		honoured("clusters,M=", func(_ *call, text string) error {
			if text != "all" && text != "gantry" {
				return fmt.Errorf("%q: %s", text, oneHost)
			}
			return nil
		}),
		into("delimiter=", func(c *call) *string { return &c.delimiter }),
		honoured("endtime,E=", func(c *call, text string) (err error) {
			c.Until, err = instant(text, c.now)
			return err
		}),
		into("format,o=", func(c *call) *string { return &c.format }),
		flag("noheader,n", func(c *call) { c.Account.Header = false }),
		flag("parsable,p", func(c *call) { c.parsable, c.trailing = true, true }),
		flag("parsable2,P", func(c *call) { c.parsable, c.trailing = true, false }),
		honoured("starttime,S=", func(c *call, text string) (err error) {
			c.Since, err = instant(text, c.now)
			return err
		}),
	})
