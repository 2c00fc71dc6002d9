package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/alecthomas/kong"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/loadtest/bench"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/attention"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/terminal"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// BenchCmd measures what messages cost.
type BenchCmd struct {
	Model            string `help:"Hugging Face model directory; without it the demo model in this binary." placeholder:"DIR"`
	up.SyntheticFlag `embed:""`
	Batch            []int  `default:"1,8,32" help:"Sequences decoded together; several are measured one after the other." placeholder:"N"`
	Rows             []int  `help:"Measure instead the time of a layer for so many rows, beside the machine's ceilings." placeholder:"N"`
	ProfileOut       string `help:"With --rows: also measure calls of experts with so many rows, and write a profile of this machine's processor to this file, for arena --profile." placeholder:"FILE"`
	Grouping         string `default:"planner" enum:"planner,expert" help:"Experts of one function: planner (all of a layer) or expert (one each)." placeholder:"KIND"`
	Wire             string `default:"bf16" enum:"bf16,f32" help:"Element type of rows between services: bf16 or f32." placeholder:"TYPE"`
	Hops             string `default:"unacked" enum:"acked,unacked,core" help:"How tensors travel: acked, unacked or core." placeholder:"KIND"`
	PromptTokens     int    `default:"16" help:"Tokens of each prompt; the time to the first token after them is told, too." placeholder:"N"`
	Device           string `default:"cpu" help:"What computes experts: cpu, cuda or cuda:N. The direct path computes on the devices of the pipeline, and has its experts." placeholder:"KIND"`
	GPUMemory        string `name:"gpu-memory" default:"0" help:"Memory that experts take of their GPU, once for both sides (with --rescale for each host), such as 40GiB; 0 is nine tenths of what is free." placeholder:"BYTES"`
	GPUKernels       string `name:"gpu-kernels" default:"auto" enum:"auto,mma,wgmma" help:"What multiplies weights of bf16 on a GPU: mma, on all of them, wgmma, on sm_90, or auto, wgmma where the GPU has it." placeholder:"NAME"`
	up.StageFlags    `embed:""`
	up.PrecisionFlag `embed:""`
	cli.KernelsFlag  `embed:""`
	Threads          int     `default:"0" help:"Threads that compute, on both sides; 0 is one for each core that it may use." placeholder:"N"`
	MaxRows          int     `default:"256" help:"Most rows of one microbatch, prompt and answer tokens together; of the direct path, of a step." placeholder:"N"`
	Microbatches     int     `default:"2" help:"Microbatches in flight at once." placeholder:"N"`
	MinRows          int     `default:"0" help:"Fewest answer tokens a step for which another microbatch is used; 0 is by the size of a layer." placeholder:"N"`
	Rounds           int     `default:"5" help:"Turns of direct and pipeline; the medians count." placeholder:"N"`
	Seconds          float64 `default:"1" help:"About how many seconds a turn of either takes." placeholder:"S"`
	Breakdown        bool    `help:"Also measure the other kinds of hops, and tell what a step's time goes to."`
	Rescale          bool    `help:"Measure instead the time between tokens while the plan changes, with 3 hosts."`
	Transfer         bool    `help:"Measure instead how rows of one expert reach a host and come back, over a NATS server of the measurement's own, by transfer mode: direct, indirect and pipelined; --rows are those of a dispatch (default 1 to 16384)."`
	ColdStart        bool    `help:"Measure instead how long one expert of --model takes from cold to warm: from the page cache, the disk and an object store of the measurement's own, beside copying and reading as many bytes."`
	Bill             string  `help:"With --transfer: measure instead what a batch is billed where each expert is a function of this serverless platform (${platforms}, or a file of one), beside what the formulas say, by transfer mode." placeholder:"NAME|FILE"`
	BillTokens       int     `default:"10240" help:"With --bill: tokens of the batch." placeholder:"N"`
	Stages           bool    `help:"Also tell the time of a step by stage, as the services measure it."`
	Loads            bool    `help:"Also measure what it costs to tell Kafka of experts' loads; without --kafka to a broker in this process."`
	Guarantees       bool    `help:"Also measure what it costs that no accepted request is lost: beside a pipeline without token logs."`
	Processes        bool    `help:"Also measure the services as five processes of their own, with the NATS server of --nats or, by default, one in this process, beside one process and direct calls, and a hop of 16 KB in one process and between two beside as many bare bytes. On Linux the processes end with this one however it ends."`
	Echo             bool    `hidden:"" env:"-" help:"Answer hops of the measurement that has started this process."`
	JSON             bool    `name:"json" help:"Print one JSON object a batch size."`
	up.KafkaFlags    `embed:"" group:"Kafka:"`

	process up.ProgramFunc // makes processes of this program; nil: as it is
	given   []string       // its flags on the command line, and nats
}

// AfterApply notes which of its flags are given, and whether the server's is.
func (c *BenchCmd) AfterApply(parsed *kong.Context) error { //nolint:unparam // kong wants an error of its hooks
	for _, p := range parsed.Path {
		if p.Flag != nil && !p.Resolved && (p.Flag.Name == "nats" || slices.Contains(parsed.Selected().Flags, p.Flag)) {
			c.given = append(c.given, p.Flag.Name)
		}
	}
	return nil
}

// Run measures every batch size.
func (c *BenchCmd) Run(ctx context.Context, e *cli.Env) error {
	e.Quiet()
	if c.Echo {
		return c.echoing(ctx, e)
	}
	if err := c.check(e.Insecure); err != nil {
		return err
	}
	err := c.run(ctx, e)
	if err != nil && ctx.Err() != nil { // whatever the signal made of the services
		return cli.ErrInterrupted
	}
	return err
}

func (c *BenchCmd) run(ctx context.Context, e *cli.Env) (err error) {
	line := e.Progress()
	defer line.Clear()
	line.Set("loading the model…")
	m, err := c.open(ctx, e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }() // after the pipelines
	if c.ColdStart {
		return c.coldStart(ctx, e, m, line)
	}
	if c.Transfer {
		return c.transfers(ctx, e, m, line)
	}
	if err := c.checkModel(m); err != nil {
		return cli.Usage(err)
	}
	if c.Rescale {
		return c.rescale(ctx, e, m, line)
	}
	threads := pool.New(up.ModelFlags{Threads: c.Threads}.ComputeThreads())
	defer threads.Close()
	s, err := c.settings(ctx, e, m, threads, line)
	if err != nil {
		return err
	}
	defer s.Devices.Close() // after the pipelines
	b, err := bench.Open(ctx, s)
	var full *bench.RoomError
	if errors.As(err, &full) {
		return cli.Usage(err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if len(c.Rows) > 0 {
		err := measured(e, c, c.Rows, line, func(n int) (fmt.Stringer, error) { return b.MeasureLayer(ctx, n) })
		return errors.Join(err, c.profile(e, b, line))
	}
	return measured(e, c, c.Batch, line, func(n int) (fmt.Stringer, error) { return b.Measure(ctx, n) })
}

const (
	// leastTransfers: formulas have the constants of every other number of rows, of two at least.
	leastTransfers = 4
	// billTokens is the default of --bill-tokens.
	billTokens = 10240
)

// transferRows are those of dispatches unless --rows says others.
var transferRows = []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}

// transfers measures how rows travel.
func (c *BenchCmd) transfers(ctx context.Context, e *cli.Env, m *model.Model, line *terminal.Progress) error {
	rows := c.Rows
	if len(rows) == 0 {
		rows = transferRows
	}
	threads := pool.New(up.ModelFlags{Threads: c.Threads}.ComputeThreads())
	defer threads.Close()
	s := bench.TransferSettings{Model: m, Pool: threads, Wire: tensor.Wire(c.Wire), Hops: schemas.Hops(c.Hops), Rows: rows, Rounds: c.Rounds, Progress: line.Set}
	if c.Bill != "" {
		return c.bills(ctx, e, s, line)
	}
	t, err := bench.MeasureTransfers(ctx, s)
	if err != nil {
		return err
	}
	line.Clear()
	return cli.Show(e, c.JSON, t, t.String())
}

// profile writes what experts take on this machine, if asked to.
func (c *BenchCmd) profile(e *cli.Env, b *bench.Bench, line *terminal.Progress) error {
	if c.ProfileOut == "" {
		return nil
	}
	p, roofline, curve, err := b.Profile(c.Rows)
	if err != nil {
		return err
	}
	text, err := p.YAML()
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.ProfileOut, text, 0o644); err != nil {
		return fmt.Errorf("--profile-out: %w", err)
	}
	line.Clear()
	_, err = fmt.Fprintf(e.Err, "%s is %s with %s's experts: its roofline is within %.0f %% of what was measured, its curve within %.0f %% (root of the mean square)\n",
		c.ProfileOut, p.Device, p.Experts, 100*roofline, 100*curve)
	return err
}

// measured shows the result for each of sizes.
func measured(e *cli.Env, c *BenchCmd, sizes []int, line *terminal.Progress, measure func(n int) (fmt.Stringer, error)) error {
	for _, n := range sizes {
		r, err := measure(n)
		if err != nil {
			return err
		}
		line.Clear()
		if err := cli.Show(e, c.JSON, r, r.String()); err != nil {
			return err
		}
	}
	return nil
}

func (c *BenchCmd) settings(ctx context.Context, e *cli.Env, m *model.Model, threads *pool.Pool, line *terminal.Progress) (s bench.Settings, err error) {
	s = bench.Settings{
		Model: m, Pool: threads, Grouping: c.Grouping, Wire: c.Wire, Hops: c.Hops, Rounds: c.Rounds, Seconds: c.Seconds, Breakdown: c.Breakdown, Stages: c.Stages,
		Prompt: c.PromptTokens, Progress: line.Set,
	}
	b := benched{hosts: 1, threads: threads}
	if len(c.Rows) > 0 {
		s.Heard = &bench.LayerTimes{}
		b.rows, b.heard = slices.Max(c.Rows), s.Heard
	} else {
		s.Batches = c.Batch
	}
	line.Set("measuring the machine, and loading the experts…")
	if s.Devices, err = c.devices(ctx, e, m, b); err != nil {
		return s, err
	}
	s.Context, b.on = c.context(m, b.rows), s.Devices
	open := func(ctx context.Context, hops string, b benched) (*cluster.Cluster, error) {
		b.hops = hops
		return c.pipeline(ctx, e, m, b)
	}
	s.Open = func(ctx context.Context, hops string) (*cluster.Cluster, error) { return open(ctx, hops, b) }
	if c.Loads {
		s.Loads = func(ctx context.Context, hops string) (*cluster.Cluster, error) {
			b := b
			b.loads = true
			return open(ctx, hops, b)
		}
	}
	if c.Processes {
		s.Apart = func(ctx context.Context) (*bench.Apart, error) { return c.apart(ctx, e, schemas.ModelToken(m.Name)) }
	}
	if c.Guarantees {
		s.Unkept = func(ctx context.Context, hops string, logs *bench.Unkept) (*cluster.Cluster, error) {
			b := b
			b.logs = logs.On
			return open(ctx, hops, b)
		}
	}
	return s, nil
}

// devices are what both sides compute on.
func (c *BenchCmd) devices(ctx context.Context, e *cli.Env, m *model.Model, b benched) (*bench.Devices, error) {
	b.hops = c.Hops
	_, services, err := c.flags(e, m, b)
	if err != nil {
		return nil, err
	}
	d, err := bench.OpenDevices(ctx, m, b.threads, tensor.Wire(c.Wire), services, c.context(m, b.rows))
	var refused *device.RefusedError
	if errors.As(err, &refused) {
		return nil, cli.Usage(err)
	}
	return d, err
}

// context is how many tokens a sequence may have, of a model and where so many rows of a
// step are timed.
func (c *BenchCmd) context(m *model.Model, rows int) int {
	if rows > 0 {
		return min(max(bench.Context, rows+1), m.Spec.MaxPositions)
	}
	return min(bench.ContextFor(c.PromptTokens), m.Spec.MaxPositions)
}

// rescale measures changes of plans, each with a pipeline of its own.
func (c *BenchCmd) rescale(ctx context.Context, e *cli.Env, m *model.Model, line *terminal.Progress) error {
	for _, n := range c.Batch {
		y, err := c.pipeline(ctx, e, m, benched{
			hops: c.Hops, hosts: bench.RescaleHosts, keepAlive: time.Duration(c.Seconds * float64(time.Second)),
		})
		if err != nil {
			return err
		}
		r, err := bench.Rescale(ctx, y, n, c.Rounds, time.Duration(c.Seconds*float64(time.Second)), line.Set)
		if err = errors.Join(err, y.Close()); err != nil {
			return err
		}
		line.Clear()
		if err := cli.Show(e, c.JSON, r, r.String()); err != nil {
			return err
		}
	}
	return nil
}

func (c *BenchCmd) check(insecure bool) error {
	switch {
	case c.Device == "paced":
		return cli.Usage(errors.New("--device is paced; bench measures on cpu, cuda or cuda:N, and arena --back-end live on paced hosts"))
	case !(c.Seconds > 0 && c.Seconds <= longestTurn):
		return cli.Usage(fmt.Errorf("--seconds is %v; it must be above 0, and at most %d", c.Seconds, longestTurn))
	}
	if err := errors.Join(up.CheckRange("rounds", c.Rounds, 1, mostRounds), c.checkCold(), c.checkInstead(), c.checkProcesses()); err != nil {
		return err
	}
	for _, n := range c.Batch {
		if n < 1 || n > maxBatch {
			return cli.Usage(fmt.Errorf("--batch has %d; it must be 1 to %d", n, maxBatch))
		}
	}
	most := maxRows
	if c.Transfer {
		most = slices.Max(transferRows)
	}
	for _, n := range c.Rows {
		if n < 1 || n > most {
			return cli.Usage(fmt.Errorf("--rows has %d; it must be 1 to %d", n, most))
		}
	}
	_, err := c.KafkaFlags.Config(insecure)
	return errors.Join(err,
		up.CheckRange("threads", c.Threads, 0, up.MostThreads),
		up.CheckRange("prompt-tokens", c.PromptTokens, 1, mostPrompt),
		up.CheckRange("max-rows", c.MaxRows, 1, attention.MostRows),
		up.CheckRange("microbatches", c.Microbatches, 1, attention.MostMicrobatches),
		up.CheckRange("min-rows", c.MinRows, 0, attention.MostRows),
	)
}

// checkInstead refuses what --rescale and --rows have no use for, as they measure something else.
func (c *BenchCmd) checkInstead() error {
	switch also := c.Breakdown || c.Stages || c.Loads || c.Guarantees; {
	case c.Transfer && (c.Rescale || c.ProfileOut != "" || c.Device != "cpu" || also):
		return cli.Usage(errors.New("--transfer measures how rows travel alone, on the cpu; leave out --rescale, --profile-out, --device, --breakdown, --stages, --loads and --guarantees"))
	case c.Transfer && len(c.Rows) > 0 && len(slices.Compact(slices.Sorted(slices.Values(c.Rows)))) < leastTransfers:
		return cli.Usage(fmt.Errorf("--rows has %d numbers; --transfer fits its formulas to %d or more that differ", len(c.Rows), leastTransfers))
	case c.BillTokens != billTokens && c.Bill == "":
		return cli.Usage(errors.New("--bill-tokens is of --bill; give both, or neither"))
	case c.Bill != "" && !c.Transfer:
		return cli.Usage(errors.New("--bill is of --transfer; give both, or neither"))
	case c.Bill != "" && (c.BillTokens < 1 || c.BillTokens > slices.Max(transferRows)):
		return cli.Usage(fmt.Errorf("--bill-tokens is %d; it must be 1 to %d", c.BillTokens, slices.Max(transferRows)))
	case c.Rescale && (len(c.Rows) > 0 || also):
		return cli.Usage(errors.New("--rescale measures changes of plans alone; leave out --rows, --breakdown, --stages, --loads and --guarantees"))
	case len(c.Rows) > 0 && also:
		return cli.Usage(errors.New("--rows measures layers alone; leave out --breakdown, --stages, --loads and --guarantees"))
	case c.ProfileOut != "" && (len(c.Rows) == 0 || c.Device != "cpu"):
		return cli.Usage(errors.New("--profile-out is of what --rows measures on the cpu; name --rows, and leave out --device"))
	case c.PromptTokens != bench.PromptLength && (c.Rescale || len(c.Rows) > 0):
		return cli.Usage(fmt.Errorf("--prompt-tokens is %d; leave it out with --rescale, and with --rows, which says itself how long prompts are", c.PromptTokens))
	}
	return nil
}

// checkModel refuses what cannot be measured of a model.
func (c *BenchCmd) checkModel(m *model.Model) error {
	if c.Rescale {
		return bench.CheckRescale(m)
	}
	if err := errors.Join(bench.CheckTask(m), bench.CheckPrompt(m, c.PromptTokens)); err != nil {
		return err
	}
	if len(c.Rows) > 0 {
		return bench.CheckRows(m, c.Rows)
	}
	if gpus.IsGPU(c.AttentionDevice) { // whose memory is known when the weights are there
		return nil
	}
	return bench.CheckRoom(m, c.PromptTokens, c.MaxRows, c.Batch)
}

// longestTurn is a day; mostRounds is more than medians need.
const longestTurn, mostRounds = 24 * 60 * 60, 10_000

// maxBatch is what a replica takes by default, maxRows what it can be told to; mostPrompt
// is more than models take.
const maxBatch, maxRows, mostPrompt = 256, 4096, 1 << 20

func (c *BenchCmd) open(ctx context.Context, e *cli.Env) (*model.Model, error) {
	f := up.ModelFlags{Model: []string{c.Model}, PrecisionFlag: c.PrecisionFlag}
	if err := c.SyntheticFlag.SetShape(&f); err != nil {
		return nil, err
	}
	return f.OpenBy(ctx, e, up.OpenStoredNow)
}

// benched is in what the pipelines differ that are measured.
type benched struct {
	hops      string
	hosts     int
	threads   *pool.Pool     // nil: the pipeline's own
	on        *bench.Devices // where experts are; nil: the pipeline's own
	keepAlive time.Duration
	loads     bool // it tells Kafka of them
	rows      int  // of one step; 0: as everywhere
	heard     *bench.LayerTimes
	logs      func(*bus.Conn) bus.LogStore // of tokens; nil: as everywhere
}

// flags are a pipeline's flags, and the settings of its services.
func (c *BenchCmd) flags(e *cli.Env, m *model.Model, b benched) (f up.Cmd, s cluster.Services, err error) {
	if f, err = up.OwnUp(); err != nil {
		return f, s, err
	}
	f.Wire, f.Hops, f.Grouping, f.Microbatches, f.MinRows, f.MaxRows = c.Wire, b.hops, c.Grouping, c.Microbatches, c.MinRows, c.MaxRows
	f.Device, f.GPUMemory, f.GPUKernels, f.StageFlags = c.Device, c.GPUMemory, c.GPUKernels, c.StageFlags
	f.PrecisionFlag = c.PrecisionFlag
	f.KeepAlive, f.Threads, f.MaxModelLen = b.keepAlive, c.Threads, c.context(m, b.rows)
	if !gpus.IsGPU(c.AttentionDevice) {
		f.KVMemory = fmt.Sprint(bench.KVBytes)
	}
	if b.loads {
		f.KafkaFlags = c.KafkaFlags
	}
	f.Speculate, f.PrefixCache = 0, false // direct calls draft and share nothing
	if b.rows > 0 {
		f.MaxRows, f.Microbatches = b.rows, 1
	}
	if s, err = f.ServiceConfigs(e.Globals); err != nil {
		return f, s, err
	}
	s.Attention.LongSteps = b.rows > 0
	if err := up.CheckServices(s, m, cluster.OneEach()); err != nil {
		return f, s, cli.Usage(err)
	}
	return f, s, nil
}

// pipeline starts the message pipeline of a model that stays open.
func (c *BenchCmd) pipeline(ctx context.Context, e *cli.Env, m *model.Model, b benched) (*cluster.Cluster, error) {
	f, services, err := c.flags(e, m, b)
	if err != nil {
		return nil, err
	}
	if b.on != nil {
		services.Expert.Device = b.on.Experts
	}
	tc := f.TelemetryFlags.Config("switchyard-bench", f.ModelFlags)
	up.TellDevice(e, services, f.ModelFlags, &tc)
	t, err := telemetry.Setup(ctx, tc)
	if err != nil {
		return nil, err
	}
	threads := b.threads
	if threads == nil {
		threads = pool.New(f.ComputeThreads())
	}
	n := up.NodeOf(e, f.ModelFlags, m, threads, t)
	n.KeepModel, n.KeepPool, n.Shared.LogStore, n.Shared.Class = true, b.threads != nil, b.logs, up.ClassOf(services, f.ModelFlags)
	if b.heard != nil {
		n.Shared.Steps = b.heard.Step
	}
	count := cluster.OneEach()
	count["expert"] = b.hosts
	return up.OpenCluster(ctx, cluster.Settings{Node: n, Services: services, Count: count, EmbedKafka: b.loads})
}
