package main

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/pkg/policy/residency"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/kafka"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/attention"
	"github.com/switchyard/switchyard/services/expert"
	"github.com/switchyard/switchyard/services/predictor"
	"github.com/switchyard/switchyard/services/tokenizer"
)

// ModelFlags name the model and what its pipeline agrees on; all services of
// one model need the same ones.
type ModelFlags struct {
	Model        string        `help:"Hugging Face model directory, or nats://NAME for a model in the object store (switchyard weights); without it the demo model in this binary." placeholder:"DIR"`
	Name         string        `help:"The model's name in subjects; default is the directory's name." placeholder:"NAME"`
	MaxModelLen  int           `help:"Most tokens of a sequence, prompt and answer together; 0 is the model's limit." placeholder:"N"`
	Hops         string        `default:"unacked" enum:"acked,unacked,core" help:"How tensors travel: acked (JetStream work queues), unacked (JetStream, no acknowledgements) or core (plain NATS)." placeholder:"KIND"`
	Wire         string        `default:"bf16" enum:"bf16,f32" help:"Element type of rows between services: bf16 or f32." placeholder:"TYPE"`
	MixedClasses bool          `help:"Compute together with replicas on other devices, whose bits differ: answers are then within a tolerance, and say so. All replicas need it."`
	Replicas     int           `default:"0" help:"Replicas of each stream on the NATS cluster; 0 is 1 on one server and 3 on a cluster." placeholder:"N"`
	LogAge       time.Duration `default:"2h" help:"How long answers are kept for repeats and replays; the longest deadline must fit." placeholder:"TIME"`
	LogBytes     string        `default:"4GiB" help:"Most bytes that answers take in the token log; near it new requests are refused." placeholder:"BYTES"`
	Threads      int           `default:"0" help:"Threads that compute; 0 is one for each core that it may use." placeholder:"N"`

	RowsToPredictor string `default:"sampled" enum:"sampled,all" help:"Rows that predictors see: sampled ones on their way to gates, or all, as copies in a stream of their own for which nothing waits. Attention and predictors need the same." placeholder:"KIND"`

	synthetic string // the shape of random weights in the model's place; empty: there are none
}

// allRows is the value of --rows-to-predictor by which predictors see every row.
const allRows = "all"

// SyntheticFlag is of commands that run everything in one process.
type SyntheticFlag struct {
	Synthetic string `help:"Random weights in the shape of a model instead, such as mixtral-1b; with :N only N layers, such as mixtral-8x7b:1." placeholder:"NAME"`
}

// of sets what the model is.
func (f SyntheticFlag) of(m *ModelFlags) error {
	if m.Model != "" && f.Synthetic != "" {
		return usage(errors.New("--model and --synthetic exclude each other"))
	}
	m.synthetic = f.Synthetic
	return nil
}

// token is the model's name in subjects, known before it is opened.
func (f ModelFlags) token() string {
	switch {
	case f.Name != "":
		return schemas.ModelToken(f.Name)
	case strings.HasPrefix(f.Model, storeScheme):
		return schemas.ModelToken(strings.TrimPrefix(f.Model, storeScheme))
	case f.Model != "":
		return schemas.ModelToken(model.NameOf(f.Model))
	case f.synthetic != "":
		return schemas.ModelToken(model.CleanName(f.synthetic))
	}
	return model.DemoName
}

func (f ModelFlags) threads() int {
	if f.Threads > 0 {
		return f.Threads
	}
	return runtime.GOMAXPROCS(0) // what a container may use, not what its machine has
}

func (f ModelFlags) check() error {
	if f.LogAge < time.Minute {
		return usage(fmt.Errorf("--log-age is %v; it must be at least a minute", f.LogAge))
	}
	if f.MaxModelLen < 0 || f.Replicas < 0 {
		return usage(errors.New("--max-model-len and --replicas cannot be negative"))
	}
	if err := f.checkThreads(); err != nil {
		return err
	}
	if f.Replicas > mostReplicas {
		return usage(fmt.Errorf("--replicas is %d; NATS keeps at most %d copies of a stream", f.Replicas, mostReplicas))
	}
	_, err := f.logBytes()
	return err
}

func (f ModelFlags) checkThreads() error { return checkRange("threads", f.Threads, 0, mostThreads) }

// newPool is the threads of a command that is no service.
func newPool(threads int) (*pool.Pool, error) {
	f := ModelFlags{Threads: threads}
	if err := f.checkThreads(); err != nil {
		return nil, err
	}
	return pool.New(f.threads()), nil
}

// Bounds of what takes memory or goroutines from the start, or is calculated with.
const (
	mostThreads      = 4096
	mostSequences    = 1 << 16
	mostRows         = 1 << 16
	mostMicrobatches = 256
	mostQueued       = 1 << 20
)

func checkRange(flag string, value, least, most int) error {
	if value < least || value > most {
		return usage(fmt.Errorf("--%s is %d; it must be %d to %d", flag, value, least, most))
	}
	return nil
}

// mostReplicas is how many copies of a stream a NATS cluster keeps.
const mostReplicas = 5

// leastLog is the smallest bound of the token log that is of use.
const leastLog = 1 << 20

// logBytes is 0 for the default.
func (f ModelFlags) logBytes() (int64, error) {
	if f.LogBytes == "" {
		return 0, nil
	}
	n, err := parseBytes("log-bytes", f.LogBytes)
	if err == nil && n < leastLog {
		err = usage(fmt.Errorf("--log-bytes is %s; it must be at least 1MiB", f.LogBytes))
	}
	return n, err
}

func (f ModelFlags) wire() tensor.Wire  { return tensor.Wire(f.Wire) }
func (f ModelFlags) hops() schemas.Hops { return schemas.Hops(f.Hops) }

// TelemetryFlags say where a process tells about itself.
type TelemetryFlags struct {
	MetricsAddr   string  `help:"host:port for /metrics, /healthz and /readyz, and on the loopback /debug/pprof; empty is nowhere." placeholder:"ADDR"`
	PprofAddr     string  `help:"host:port for Go's profiles at /debug/pprof, which have no authentication; empty is --metrics-addr if that is on the loopback, else nowhere." placeholder:"ADDR"`
	OtlpEndpoint  string  `name:"otlp-endpoint" help:"Where traces go: grpc://host:4317 or http://host:4318; empty is nowhere." placeholder:"URL"`
	MetricsDetail string  `default:"expert" enum:"expert,layer,total" help:"How far metrics are told apart that grow with the model: by expert, by layer, or total (all layers together)." placeholder:"KIND"`
	TraceSample   float64 `default:"1" help:"Share of requests that are traced, 0 to 1." placeholder:"RATIO"`
}

func (f TelemetryFlags) config(name string, m ModelFlags) telemetry.Config {
	return telemetry.Config{
		OTLPEndpoint: f.OtlpEndpoint, TraceSample: f.TraceSample, MetricsAddr: f.MetricsAddr, PprofAddr: f.PprofAddr, ServiceName: name,
		Model: m.token(), Version: version, NumericClass: cpu.Class(), Detail: telemetry.Detail(f.MetricsDetail),
	}
}

// AttentionFlags are attention's own.
type AttentionFlags struct {
	KVMemory     string `name:"kv-memory" default:"64MiB" help:"Memory for keys and values, such as 64MiB or 4GiB; on a GPU they take what its memory leaves." placeholder:"BYTES"`
	MaxSequences int    `default:"256" help:"Most sequences at once; more wait." placeholder:"N"`
	MaxRows      int    `default:"256" help:"Most rows of one microbatch, prompt and answer tokens together." placeholder:"N"`
	Microbatches int    `default:"2" help:"Microbatches in flight at once." placeholder:"N"`
	MinRows      int    `default:"0" help:"Fewest answer tokens a step for which another microbatch is used; 0 is by the size of a layer." placeholder:"N"`
}

// config takes what computes attention in the CPU's place; nil is nothing.
func (f AttentionFlags) config(m ModelFlags, on *gpus.GPU) (attention.Config, error) {
	kv, err := f.kvBytes(on != nil)
	if err != nil {
		return attention.Config{}, err
	}
	if err := f.check(); err != nil {
		return attention.Config{}, err
	}
	return attention.Config{
		MaxModelLen: m.MaxModelLen, KVBytes: kv, MaxSequences: f.MaxSequences, MaxRows: f.MaxRows, Microbatches: f.Microbatches, MinRows: f.MinRows, GPU: on,
	}, nil
}

func (f AttentionFlags) check() error {
	return errors.Join(
		checkRange("max-sequences", f.MaxSequences, 1, mostSequences),
		checkRange("max-rows", f.MaxRows, 1, mostRows),
		checkRange("microbatches", f.Microbatches, 1, mostMicrobatches),
		checkRange("min-rows", f.MinRows, 0, mostRows),
	)
}

// kvBytes is 0 on a GPU, whose pages take what --gpu-memory leaves.
func (f AttentionFlags) kvBytes(onGPU bool) (int64, error) {
	if onGPU && f.KVMemory != defaultKVMemory {
		return 0, usage(fmt.Errorf("--kv-memory is %s; on a GPU keys and values take what its memory leaves: give --gpu-memory", f.KVMemory))
	}
	if onGPU {
		return 0, nil
	}
	return parseBytes("kv-memory", f.KVMemory)
}

const defaultKVMemory = "64MiB"

// ExpertFlags are the expert host's own.
type ExpertFlags struct {
	ExpertMemory string        `default:"0" help:"Memory for expert weights on this host, such as 8GiB; 0 is no limit, or what the profile has." placeholder:"BYTES"`
	KeepAlive    time.Duration `default:"60s" help:"How long experts that no plan needs any more stay in this host's memory, unless others need the room; 0 is not at all." placeholder:"TIME"`
	Offload      string        `default:"none" help:"Serve more experts than fit: none, or the order in which experts make room for those that rows have come for (lru)." placeholder:"ORDER"`
	Device       string        `default:"cpu" help:"What computes experts: cpu, cuda (a GPU, or cuda:N the one of that number; never run on one yet), or paced (the CPU, in the time and memory of another device)." placeholder:"KIND"`
	GPUMemory    string        `name:"gpu-memory" default:"0" help:"Memory that each host takes of its GPU, such as 40GiB; 0 is nine tenths of what is free." placeholder:"BYTES"`
	GPUKernels   string        `name:"gpu-kernels" default:"mma" enum:"mma,wgmma" help:"What multiplies weights of bf16 on a GPU: mma, on all of them, or wgmma, on sm_90 (never run on one yet). Their results differ in bits." placeholder:"NAME"`
	ProfileTime  profiles.Time `default:"roofline" enum:"roofline,measured,printed" help:"What an expert's rows take on a paced device: roofline (its weights are read once an access), measured (the profile's curve) or printed (MoEless's price a row)." placeholder:"FORM"`
	Profile      string        `help:"What a paced device takes: the name of a profile, or a YAML file." placeholder:"NAME|FILE"`
}

func (f ExpertFlags) config() (c expert.Config, err error) {
	budget, err := parseBytes("expert-memory", f.ExpertMemory)
	if err != nil {
		return c, err
	}
	c.MemoryBudget, c.KeepAlive = uint64(budget), f.KeepAlive
	if c.Offload, err = f.order(); err != nil {
		return c, err
	}
	if c.Profile, err = f.profile(); err != nil {
		return c, err
	}
	c.GPU, err = f.gpu()
	return c, err
}

// order is nil for hosts that hold what they serve.
func (f ExpertFlags) order() (residency.Order, error) {
	if f.Offload == "none" || f.Offload == "" {
		return nil, nil
	}
	o, err := residency.Named(f.Offload)
	if err != nil {
		return nil, usage(fmt.Errorf("--offload: %w; or give none", err))
	}
	return o, nil
}

// profile is nil for a device that is not paced.
func (f ExpertFlags) profile() (*profiles.Profile, error) {
	switch {
	case f.Device != "paced" && f.Profile == "":
		return nil, nil
	case f.Device != "paced":
		return nil, usage(fmt.Errorf("--profile is %q; it is of --device paced only", f.Profile))
	case f.Profile == "":
		return nil, usage(fmt.Errorf("--device paced needs --profile: %s, or a file", strings.Join(profiles.Names(), ", ")))
	}
	p, err := profiles.Open(f.Profile)
	if err != nil {
		return nil, usage(fmt.Errorf("--profile: %w", err))
	}
	if err := p.Take(f.ProfileTime); err != nil {
		return nil, usage(fmt.Errorf("--profile-time: %w", err))
	}
	return p, nil
}

// gpu is nil for a device that is none.
func (f ExpertFlags) gpu() (*gpus.GPU, error) {
	if isGPU(f.Device) && f.ExpertMemory != "0" {
		return nil, usage(fmt.Errorf("--expert-memory is %s; of --device cuda give --gpu-memory", f.ExpertMemory))
	}
	g, err := gpuFlags{"device", f.Device, "gpu-memory", f.GPUMemory, "cpu, paced, cuda or cuda:N"}.open()
	if err != nil {
		return nil, err
	}
	return g, kernelsOn(g, f.GPUKernels)
}

// KafkaFlags say where samples of experts' loads go, and come from.
type KafkaFlags struct {
	Kafka             []string `help:"HOST:PORT of Kafka brokers that experts' loads go to; without it services send none, and up starts a broker of its own." placeholder:"HOST:PORT,…"`
	KafkaTopic        string   `default:"switchyard.load" help:"Topic of the loads; it is created with 32 partitions if it does not exist." placeholder:"NAME"`
	KafkaTLS          bool     `name:"kafka-tls" help:"Speak TLS with Kafka."`
	KafkaCA           string   `name:"kafka-ca" help:"PEM file with the authority that signed the brokers' certificates; it turns TLS on." placeholder:"FILE"`
	KafkaSASL         string   `name:"kafka-sasl" help:"How to log in: plain, scram-sha-256 or scram-sha-512; empty is not at all." placeholder:"MECHANISM"`
	KafkaUser         string   `help:"User to log in as." placeholder:"NAME"`
	KafkaPasswordFile string   `help:"File with the user's password." placeholder:"FILE"`
}

// config is nil without brokers.
func (f KafkaFlags) config(insecure bool) (*kafka.Config, error) {
	c := kafka.Config{
		Brokers: f.Kafka, Topic: f.KafkaTopic, TLS: f.KafkaTLS, CA: f.KafkaCA,
		SASL: f.KafkaSASL, User: f.KafkaUser, PasswordFile: f.KafkaPasswordFile, Insecure: insecure,
	}
	if len(f.Kafka) == 0 {
		return nil, nil
	}
	if err := c.Validate(); err != nil {
		return nil, usage(err)
	}
	return &c, nil
}

// PredictorFlags are the predictor's own.
type PredictorFlags struct {
	Distance int    `default:"1" help:"How many layers ahead the predictor tells experts' loads." placeholder:"N"`
	Weights  string `help:"Predictor's weights, made by train-predictor for the same model; without it the demo model's are built in, and other models' own gates are reused." placeholder:"FILE"`
	MaxRate  int    `default:"200" help:"Messages with rows that the predictor takes in a second at most, as a share tells as much; 0 is all." placeholder:"N"`
}

func (f PredictorFlags) config() predictor.Config {
	return predictor.Config{Distance: f.Distance, Weights: f.Weights, MaxRate: f.MaxRate}
}

// PlanFlags are settings of plans that are written at the start, so that they
// stay for the next one; what is not given stays as it is.
type PlanFlags struct {
	Grouping    string `help:"Experts of one function: planner (all of a layer on one host) or expert (one each); without it as the deployment's settings say." placeholder:"KIND"`
	Replication int    `default:"0" help:"Hosts that run each function; 0 is as the deployment's settings say." placeholder:"N"`
}

// settings are those that are given.
func (f PlanFlags) settings() (plan.Settings, error) {
	s := plan.Settings{Grouping: plan.Grouping(f.Grouping), Replicas: f.Replication}
	if err := plan.DefaultSettings().With(s).Check(); err != nil {
		return s, usage(fmt.Errorf("--grouping or --replication: %w", err))
	}
	return s, nil
}

// checkUp refuses what such a scaler does not heed.
func (f PlanFlags) checkUp(scaling string) error {
	if f.Replication > 0 && scaling != noScaling && scaling != plan.Static {
		return usage(fmt.Errorf("--replication is %d; with --scaling %s the scaler decides how many replicas experts have: give one of them", f.Replication, scaling))
	}
	return nil
}

// warnUp says that there are too few hosts for all replicas, as long as none join from elsewhere.
func (f PlanFlags) warnUp(e *env, hosts int) {
	if f.Replication > hosts {
		e.log.Warn("a function can have one replica on each host, so it has fewer than asked for until others join: give --hosts as many",
			"replication", f.Replication, "hosts", hosts)
	}
}

// TokenizerFlags are the tokenizer's own.
type TokenizerFlags struct {
	MaxQueued     int           `default:"${max_queued}" help:"Sequences that may wait before prompts are refused as overload." placeholder:"N"`
	InboxPrefixes []string      `default:"_INBOX." help:"What the reply subjects of ask and replay begin with; others are not answered." placeholder:"PREFIX,…"`
	CanaryEvery   time.Duration `default:"15s" help:"How long no token may flow before a request of one token is sent to see whether one can; 0 is never, and then no token need flow to be ready." placeholder:"TIME"`
	Tenant        []string      `sep:"none" help:"What a tenant may have, such as acme:weight=4,waiting=100,tokens=60000,log=1GiB (its share, its requests that wait, tokens a minute, bytes of the token log); * stands for those not named. May be given several times; all tokenizers need the same." placeholder:"NAME:QUOTA"`
}

func (f TokenizerFlags) config(m ModelFlags, prefix string) (tokenizer.Config, error) {
	if err := checkRange("max-queued", f.MaxQueued, 1, mostQueued); err != nil {
		return tokenizer.Config{}, err
	}
	if f.CanaryEvery < 0 {
		return tokenizer.Config{}, usage(fmt.Errorf("--canary-every is %v; it must be a time, or 0 for never", f.CanaryEvery))
	}
	for _, inbox := range f.InboxPrefixes {
		if err := (schemas.Subjects{Prefix: prefix}).CheckInboxPrefix(inbox); err != nil {
			return tokenizer.Config{}, usage(fmt.Errorf("--inbox-prefixes: %w", err))
		}
	}
	tenants, err := parseTenants(f.Tenant)
	return tokenizer.Config{
		MaxModelLen: m.MaxModelLen, MaxQueued: f.MaxQueued, InboxPrefixes: f.InboxPrefixes, Tenants: tenants, Version: semver(version),
		CanaryEvery: f.CanaryEvery,
	}, err
}

// units are the suffixes of byte counts, longest first.
var units = []struct {
	suffix string
	bytes  int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}, {"", 1},
}

// mostBytes is more than any machine has, and sums of it are calculated with.
const mostBytes = 1024 << 40

// parseBytes reads a count of bytes such as 64MiB.
func parseBytes(flag, text string) (int64, error) {
	n, err := readBytes(flag, text)
	if err == nil && n > mostBytes {
		err = usage(fmt.Errorf("--%s is %s; it must be at most 1024TiB", flag, text))
	}
	return n, err
}

func readBytes(flag, text string) (int64, error) {
	for _, u := range units {
		digits, ok := strings.CutSuffix(text, u.suffix)
		var n int64
		if !ok {
			continue
		}
		if used, err := fmt.Sscanf(digits+" ", "%d ", &n); err != nil || used != 1 || fmt.Sprint(n) != digits || n < 0 || n > 1<<62/u.bytes {
			break
		}
		return n * u.bytes, nil
	}
	return 0, usage(fmt.Errorf("--%s is %q; it must be a number of bytes such as 67108864, 64MiB or 4GB", flag, text))
}
