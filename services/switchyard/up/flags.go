package up

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/switchyard/switchyard/internal/flagvalue"
	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/service"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/kafka"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/attention"
	"github.com/switchyard/switchyard/services/expert"
	"github.com/switchyard/switchyard/services/gateway"
	"github.com/switchyard/switchyard/services/predictor"
	"github.com/switchyard/switchyard/services/scaler"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/tokenizer"
)

// Flags of services that a process with all of them has as well. They have names of their own,
// as a struct embeds one field of a name alone.
type (
	// AttentionFlags are those of attention.
	AttentionFlags = attention.Flags
	// ExpertFlags are those of expert hosts.
	ExpertFlags = expert.Flags
	// TokenizerFlags are those of tokenizers.
	TokenizerFlags = tokenizer.Flags
	// PredictorFlags are those of predictors.
	PredictorFlags = predictor.Flags
	// ScalingFlags are those of scalers.
	ScalingFlags = scaler.Flags
	// GatewayFlags are those of gateways.
	GatewayFlags = gateway.Flags
	// UnitedFlags are those of united experts.
	UnitedFlags = service.UnitedFlags
)

// ModelFlags name the model and what its pipeline agrees on; all services of
// one model need the same ones.
type ModelFlags struct {
	Model        []string      `sep:"none" help:"Hugging Face model directory, or nats://NAME for a model in the object store (switchyard weights); without it the demo model in this binary. up serves several: --model DIR again for each." placeholder:"DIR"`
	Name         string        `help:"The model's name in subjects; default is the directory's name." placeholder:"NAME"`
	MaxModelLen  int           `help:"Most tokens of a sequence, prompt and answer together; 0 is the model's limit." placeholder:"N"`
	Hops         string        `default:"unacked" enum:"acked,unacked,core" help:"How tensors travel: acked (JetStream work queues), unacked (JetStream without acknowledgements; plain NATS to one replica by name) or core (plain NATS)." placeholder:"KIND" advanced:""`
	Wire         string        `default:"bf16" enum:"bf16,f32" help:"Element type of rows between services: bf16 or f32." placeholder:"TYPE" advanced:""`
	MixedClasses bool          `help:"Compute together with replicas on other devices, whose bits differ: answers are then within a tolerance, and say so. All replicas need it." advanced:""`
	Replicas     int           `default:"0" help:"Replicas of each stream on the NATS cluster; 0 is 1 on one server and 3 on a cluster." placeholder:"N" advanced:""`
	LogAge       time.Duration `default:"2h" help:"How long answers are kept for repeats and replays; the longest deadline must fit." placeholder:"TIME" advanced:""`
	LogBytes     string        `default:"4GiB" help:"Most bytes that answers take in the token log; near it new requests are refused." placeholder:"BYTES" advanced:""`
	Threads      int           `default:"0" help:"Threads that compute; 0 is one for each core that it may use." placeholder:"N"`

	PrecisionFlag   `embed:""`
	cli.KernelsFlag `embed:""`

	RowsToPredictor string `default:"sampled" enum:"sampled,all" help:"Rows that predictors see: sampled ones on their way to gates, or all, as copies in a stream of their own for which nothing waits. Attention and predictors need the same." placeholder:"KIND" advanced:""`

	synthetic string // the shape of random weights in the model's place; empty: there are none
}

// AllRows is the value of --rows-to-predictor by which predictors see every row.
const AllRows = "all"

// PrecisionFlag is of commands that compute.
type PrecisionFlag struct {
	Precision string `default:"bf16" enum:"bf16,w16a16,q8,q4,w8a8,w4a8,a8" help:"How matrices are kept in memory: bf16 as they are stored, w16a16 the same for rows that are rounded to bf16, which is faster with AVX-512 BF16, q8 or q4 quantised when they are loaded, to 8 or 4 bits with a scale for each 32 weights of an output. With w8a8 or w4a8 the rows that meet them are rounded to 8 bits, too, which is faster; a8 does so for the codes of GGUF, GPTQ and AWQ, which stay as they are. What chooses experts is not quantised, and MXFP4 and FP8 stay as they are. On CPUs only; all services of a model need the same." placeholder:"KIND"`

	KVCacheFlag `embed:""`
}

// KVCacheFlag is of commands that compute attention, or work with those that do.
type KVCacheFlag struct {
	KVCacheDtype string `name:"kv-cache-dtype" default:"auto" enum:"auto,f32,bf16,int8" help:"In what attention keeps keys and values: f32, bf16 with half the memory, int8 with about a quarter, or auto, which is f32, and bf16 where --precision rounds rows. On CPUs only; all services of a model need the same." placeholder:"TYPE"`
}

// SetPrecision has the model computed so.
func (f PrecisionFlag) SetPrecision(m *model.Model) error {
	m.In(model.Precision(f.Precision))
	err := forward.CheckPrecision(m)
	switch {
	case errors.Is(err, cpu.ErrGroups):
		return cli.Usage(fmt.Errorf("--precision is %s: %w: leave it out", f.Precision, err))
	case err != nil:
		return cli.Usage(fmt.Errorf("--precision is %s: %w", f.Precision, err))
	}
	return f.keep(m)
}

// Kind returns what the flag names.
func (f KVCacheFlag) Kind() model.KVCache { return model.KVCache(f.KVCacheDtype) }

// keep has keys and values of the model kept so.
func (f KVCacheFlag) keep(m *model.Model) error {
	if err := m.KeepIn(f.Kind()); err != nil {
		return cli.Usage(fmt.Errorf("--kv-cache-dtype is %s: %w", f.KVCacheDtype, err))
	}
	return nil
}

// SyntheticFlag is of commands that run everything in one process.
type SyntheticFlag struct {
	Synthetic string `help:"Random weights in the shape of a model instead, such as mixtral-1b; with :N only N layers, such as mixtral-8x7b:1." placeholder:"NAME" advanced:""`
}

// SetShape sets what the model is.
func (f SyntheticFlag) SetShape(m *ModelFlags) error {
	if m.dir() != "" && f.Synthetic != "" {
		return cli.Usage(errors.New("--model and --synthetic exclude each other"))
	}
	m.synthetic = f.Synthetic
	return nil
}

// Random returns the flags of a model with random weights in the shape of this name.
func Random(shape string) ModelFlags { return ModelFlags{synthetic: shape} }

func (f ModelFlags) dir() string {
	if len(f.Model) == 0 {
		return ""
	}
	return f.Model[0]
}

// ModelToken returns the model's name in subjects, known before it is opened.
func (f ModelFlags) ModelToken() string {
	switch {
	case f.Name != "":
		return schemas.ModelToken(f.Name)
	case strings.HasPrefix(f.dir(), StoreScheme):
		return schemas.ModelToken(strings.TrimPrefix(f.dir(), StoreScheme))
	case f.dir() != "":
		return schemas.ModelToken(model.NameOf(f.dir()))
	case f.synthetic != "":
		return schemas.ModelToken(model.CleanName(f.synthetic))
	}
	return model.DemoName
}

// ComputeThreads returns how many threads compute.
func (f ModelFlags) ComputeThreads() int {
	if f.Threads > 0 {
		return f.Threads
	}
	return runtime.GOMAXPROCS(0) // what a container may use, not what its machine has
}

// Check refuses values that no service of one model can have.
func (f ModelFlags) Check() error {
	if len(f.Model) > 1 {
		return cli.Usage(fmt.Errorf("--model is given %d times (%s); this process serves one model: start another one for each of the others", len(f.Model), strings.Join(f.Model, ", ")))
	}
	if err := f.checkName(); err != nil {
		return err
	}
	if f.LogAge < time.Minute {
		return cli.Usage(fmt.Errorf("--log-age is %v; it must be at least a minute", f.LogAge))
	}
	if f.MaxModelLen < 0 || f.Replicas < 0 {
		return cli.Usage(errors.New("--max-model-len and --replicas cannot be negative"))
	}
	if err := f.checkThreads(); err != nil {
		return err
	}
	if f.Replicas > MostReplicas {
		return cli.Usage(fmt.Errorf("--replicas is %d; NATS keeps at most %d copies of a stream", f.Replicas, MostReplicas))
	}
	_, err := f.LogLimit()
	return err
}

// checkName refuses a name that members' records do not have.
func (f ModelFlags) checkName() error {
	if err := schemas.CheckModelToken(f.ModelToken()); err != nil {
		return cli.Usage(fmt.Errorf("%w: give a shorter --name, or the folder one", err))
	}
	return nil
}

func (f ModelFlags) checkThreads() error { return CheckRange("threads", f.Threads, 0, MostThreads) }

// NewPool returns the threads of a command that is no service.
func NewPool(threads int) (*pool.Pool, error) {
	f := ModelFlags{Threads: threads}
	if err := f.checkThreads(); err != nil {
		return nil, err
	}
	return pool.New(f.ComputeThreads()), nil
}

// MostThreads bounds what takes goroutines from the start.
const MostThreads = 4096

// CheckRange refuses a flag's value outside its bounds.
func CheckRange(flag string, value, least, most int) error {
	return cli.Wrongly(service.CheckRange(flag, value, least, most))
}

// MostReplicas is how many copies of a stream a NATS cluster keeps.
const MostReplicas = 5

// leastLog is the smallest bound of the token log that is of use.
const leastLog = 1 << 20

// LogLimit returns the bytes of --log-bytes; 0 is the default.
func (f ModelFlags) LogLimit() (int64, error) {
	if f.LogBytes == "" {
		return 0, nil
	}
	n, err := ParseBytes("log-bytes", f.LogBytes)
	if err == nil && n < leastLog {
		err = cli.Usage(fmt.Errorf("--log-bytes is %s; it must be at least 1MiB", f.LogBytes))
	}
	return n, err
}

// WireType returns the element type of rows between services.
func (f ModelFlags) WireType() tensor.Wire { return tensor.Wire(f.Wire) }
func (f ModelFlags) hops() schemas.Hops    { return schemas.Hops(f.Hops) }

// TelemetryFlags say where a process tells about itself.
type TelemetryFlags struct {
	MetricsAddr   string  `help:"host:port for /metrics, /healthz and /readyz, and on the loopback /debug/pprof; empty is nowhere." placeholder:"ADDR"`
	PprofAddr     string  `help:"host:port for Go's profiles at /debug/pprof, which have no authentication; empty is --metrics-addr if that is on the loopback, else nowhere." placeholder:"ADDR" advanced:""`
	OtlpEndpoint  string  `name:"otlp-endpoint" help:"Where traces go, by OTLP over HTTP, such as http://host:4318; empty is nowhere." placeholder:"URL"`
	MetricsDetail string  `default:"expert" enum:"expert,layer,total" help:"How far metrics are told apart that grow with the model: by expert, by layer, or total (all layers together)." placeholder:"KIND" advanced:""`
	TraceSample   float64 `default:"1" help:"Share of requests that are traced, 0 to 1." placeholder:"RATIO" advanced:""`
}

// Config returns what a process of this name tells about itself and the model.
func (f TelemetryFlags) Config(name string, m ModelFlags) telemetry.Config {
	return telemetry.Config{
		OTLPEndpoint: f.OtlpEndpoint, TraceSample: f.TraceSample, MetricsAddr: f.MetricsAddr, PprofAddr: f.PprofAddr, ServiceName: name,
		Model: m.ModelToken(), Version: cli.Version, NumericClass: cpu.Class(), Kernels: cpu.Name(), Detail: telemetry.Detail(f.MetricsDetail),
	}
}

// KafkaFlags say where samples of experts' loads go, and come from.
type KafkaFlags struct {
	Kafka             []string `help:"HOST:PORT of Kafka brokers that experts' loads go to; without it services send none, and up starts a broker of its own." placeholder:"HOST:PORT"`
	KafkaTopic        string   `default:"switchyard.load" help:"Topic of the loads; it is created with 32 partitions if it does not exist." placeholder:"NAME" advanced:""`
	KafkaTLS          bool     `name:"kafka-tls" help:"Speak TLS with Kafka." advanced:""`
	KafkaCA           string   `name:"kafka-ca" help:"PEM file with the authority that signed the brokers' certificates; it turns TLS on." placeholder:"FILE" advanced:""`
	KafkaSASL         string   `name:"kafka-sasl" help:"How to log in: plain, scram-sha-256 or scram-sha-512; empty is not at all." placeholder:"MECHANISM" advanced:""`
	KafkaUser         string   `help:"User to log in as." placeholder:"NAME" advanced:""`
	KafkaPasswordFile string   `help:"File with the user's password." placeholder:"FILE" advanced:""`
}

// Config returns the brokers; nil without any.
func (f KafkaFlags) Config(insecure bool) (*kafka.Config, error) {
	c := kafka.Config{
		Brokers: f.Kafka, Topic: f.KafkaTopic, TLS: f.KafkaTLS, CA: f.KafkaCA,
		SASL: f.KafkaSASL, User: f.KafkaUser, PasswordFile: f.KafkaPasswordFile, Insecure: insecure,
	}
	if len(f.Kafka) == 0 {
		return nil, nil
	}
	if err := c.Validate(); err != nil {
		return nil, cli.Usage(err)
	}
	return &c, nil
}

// PlanFlags are settings of plans that are written at the start, so that they
// stay for the next one; what is not given stays as it is.
type PlanFlags struct {
	Grouping    string `help:"Experts of one function: planner (all of a layer on one host) or expert (one each); without it as the deployment's settings say." placeholder:"KIND" advanced:""`
	Replication int    `default:"0" help:"Hosts that run each function; 0 is as the deployment's settings say." placeholder:"N"`
}

// settings returns the settings of plans that the flags give.
func (f PlanFlags) settings() (plan.Settings, error) {
	s := plan.Settings{Grouping: plan.Grouping(f.Grouping), Replicas: f.Replication}
	if err := plan.DefaultSettings().With(s).Check(); err != nil {
		return s, cli.Usage(fmt.Errorf("--grouping or --replication: %w", err))
	}
	return s, nil
}

// checkUp refuses what such a scaler does not heed.
func (f PlanFlags) checkUp(scaling string) error {
	if f.Replication > 0 && scaling != noScaling && scaling != plan.Static {
		return cli.Usage(fmt.Errorf("--replication is %d; with --scaling %s the scaler decides how many replicas experts have: give one of them", f.Replication, scaling))
	}
	return nil
}

// warnUp says that there are too few hosts for all replicas, as long as none join from elsewhere.
func (f PlanFlags) warnUp(e *cli.Env, hosts int) {
	if f.Replication > hosts {
		e.Log.Warn("a function can have one replica on each host, so it has fewer than asked for until others join: give --hosts as many",
			"replication", f.Replication, "hosts", hosts)
	}
}

// ParseBytes returns a count of bytes that a flag names, such as 64MiB.
func ParseBytes(flag, text string) (int64, error) {
	n, err := flagvalue.Bytes(flag, text)
	return n, cli.Wrongly(err)
}
