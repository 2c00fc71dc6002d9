// Package up is the command that runs all services and a NATS server in one process, and what it
// shares with other commands that serve a model or ask one: flags, opening models, child processes.
package up

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/switchyard/switchyard/internal/flagvalue"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
	"github.com/switchyard/switchyard/pkg/policy/expertmap"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	"github.com/switchyard/switchyard/pkg/process/service"
	"github.com/switchyard/switchyard/pkg/request/tokenizer"
	"github.com/switchyard/switchyard/pkg/transport/credentials"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/expert"
	"github.com/switchyard/switchyard/services/predictor"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// Cmd runs everything in one process.
type Cmd struct {
	ModelFlags     `embed:"" group:"Model and pipeline:"`
	SyntheticFlag  `embed:"" group:"Model and pipeline:"`
	AttentionFlags `embed:"" group:"Attention:"`
	ExpertFlags    `embed:"" group:"Expert hosts:"`
	PlanFlags      `embed:"" group:"Plans:"`
	TokenizerFlags `embed:"" group:"Tokenizer:"`
	KafkaFlags     `embed:"" group:"Kafka:"`
	PredictorFlags `embed:"" group:"Predictor:"`
	ScalingFlags   `embed:"" group:"Scaler:"`
	GatewayFlags   `embed:"" group:"HTTP:"`
	TelemetryFlags `embed:"" group:"Metrics and traces:"`
	StageFlags     `embed:"" group:"Attention:"`
	UnitedFlags    `embed:"" group:"Expert hosts:"`
	RentFlags      `embed:"" group:"Serverless platform:"`

	Hosts   int      `default:"1" help:"Expert hosts in this process." placeholder:"N"`
	Scaling string   `default:"auto" help:"Who decides how many replicas experts have: ${live_policies}, with settings as in eplb:every=300s (docs/policies.md); none runs no scaler, no predictor and no Kafka; auto is ${default_policy} where several hosts have a device each (--device paced); where they share one, a copy saves no time: there it is none, or static if --kafka or --kafka-listen wants loads told." placeholder:"NAME"`
	Data    string   `help:"Folder that keeps accepted requests over restarts; without it a temporary one that is removed." placeholder:"DIR"`
	Sync    bool     `help:"Write through to the disk before anything is acknowledged, so that a power cut loses nothing either; slower."`
	Auth    AuthFlag `placeholder:"DIR" help:"Let in users with their own rights only, over TLS: those of a folder that auth init has made, or that this makes; without DIR it is auth in the --data folder."`
	Listen  string   `default:"127.0.0.1:4222" help:"host:port where clients reach the embedded NATS server." placeholder:"ADDR"`

	HTTP string `name:"http" default:"auto" help:"host:port where clients of OpenAI's and Anthropic's HTTP APIs reach a gateway; auto is 127.0.0.1:8080, and nowhere if another process is there; off is nowhere." placeholder:"ADDR"`

	KafkaListen string `help:"host:port of the loopback where other processes reach the embedded Kafka broker; without it none does. With --auth they log in." placeholder:"ADDR"`
}

// UnusedFlags returns those of every command that up has no use for: it runs a server of its own.
func (*Cmd) UnusedFlags() []string {
	return []string{"nats", "creds", "tls-ca", "tls-cert", "tls-key", "js-domain", "js-api-prefix"}
}

// maxHosts bounds the expert hosts of one process: each has connections and goroutines of its own.
const maxHosts = 256

const (
	// noScaling is the --scaling that leaves the control loop out.
	noScaling = "none"
	// AutoScaling is the --scaling that goes by the hosts' devices.
	AutoScaling = "auto"
)

// chosenScaling returns --scaling, or what auto comes to.
func (c *Cmd) chosenScaling() string {
	switch {
	case c.Scaling != AutoScaling:
		return c.Scaling
	case c.Device == "paced" && c.Hosts > 1 && c.Replication == 0:
		return registry.Default
	case c.KafkaListen == "" && len(c.Kafka) == 0:
		return noScaling // to tell loads takes a twentieth of the processors
	}
	return plan.Static
}

// Run serves until a signal.
func (c *Cmd) Run(ctx context.Context, e *cli.Env) (err error) {
	if c.Listen == "" {
		return cli.Usage(errors.New("--listen is empty: no client could reach the model; it must be HOST:PORT, such as 127.0.0.1:4222"))
	}
	if _, _, err := flagvalue.ListenAddress(c.Listen); err != nil {
		return cli.Usage(fmt.Errorf("--listen is %q; %w", c.Listen, err))
	}
	if err := errors.Join(c.checkKafkaListen(), c.SyntheticFlag.SetShape(&c.ModelFlags)); err != nil {
		return err
	}
	models, err := c.each()
	if err != nil {
		return err
	}
	settings, err := settingsOf(ctx, e, models)
	if err != nil {
		return err
	}
	tellStages(&settings)
	tellModels(e, &settings, models)
	front, err := c.openHTTP(ctx, e, &settings)
	if err != nil {
		return errors.Join(err, settings.Close())
	}
	c.warnUp(e, c.Hosts)
	c.warnServer(e)
	y, err := OpenCluster(ctx, settings)
	if err != nil {
		return Stopped(ctx, errors.Join(err, front.close()))
	}
	defer func() { err = errors.Join(err, Stopped(ctx, y.Close())) }()
	defer e.Follow(ctx, func(command any) error {
		now, is := command.(*Cmd)
		if !is {
			return nil
		}
		own, err := now.TokenizerFlags.Config(ProcessOf(e.Globals, now.ModelFlags))
		if err == nil {
			y.Reload(own)
		}
		return err
	})()
	if y.Users() != nil {
		defer reloadUsers(e, y)()
	}
	if err := y.Ready(ctx); err != nil {
		return Stopped(ctx, err)
	}
	c.greet(e, y, front)
	return Stopped(ctx, y.Wait())
}

// warnServer says that another server, which the environment may name for all commands, is not used.
func (c *Cmd) warnServer(e *cli.Env) {
	if e.NATS != cli.DefaultNATS || e.Creds != "" {
		e.Log.Warn("up runs a NATS server of its own and uses no --nats and no --creds; services that are started one by one do", "listen", c.Listen)
	}
}

// checkKafkaListen refuses a port for a broker that there is not.
func (c *Cmd) checkKafkaListen() error {
	switch {
	case c.KafkaListen == "":
		return nil
	case c.Scaling == noScaling:
		return cli.Usage(fmt.Errorf("--kafka-listen is %q, and --scaling none runs no Kafka; leave one out", c.KafkaListen))
	case len(c.Kafka) > 0:
		return cli.Usage(fmt.Errorf("--kafka-listen is %q, and --kafka names another Kafka, so that none runs here; leave one out", c.KafkaListen))
	}
	if _, _, err := flagvalue.ListenAddress(c.KafkaListen); err != nil {
		return cli.Usage(fmt.Errorf("--kafka-listen is %q; %w", c.KafkaListen, err))
	}
	return nil
}

// OpenCluster starts what the settings say. An address or a folder that cannot be used is wrong usage.
func OpenCluster(ctx context.Context, s cluster.Settings) (*cluster.Cluster, error) {
	y, err := cluster.Open(ctx, s)
	if err != nil {
		return nil, cli.Usage(err)
	}
	return y, nil
}

// settingsBeside returns the settings of a model in a process that has one already; nil: it has none. Its memory is not shared out yet.
func (c *Cmd) settingsBeside(ctx context.Context, e *cli.Env, first *cluster.Node) (s cluster.Settings, err error) {
	if err := c.prepareRent(); err != nil {
		return s, err
	}
	if s.Services, err = c.ServiceConfigs(e.Globals); err != nil {
		return s, err
	}
	s.Count, s.Listen, s.Data, s.Insecure, s.Sync = cluster.OneEach(), c.Listen, c.Data, e.Insecure, c.Sync
	s.Count["expert"] = c.Hosts
	if c.chosenScaling() != noScaling {
		s.EmbedKafka, s.Count["predictor"], s.Count["scaler"] = true, 1, 1
		s.KafkaListen, s.KafkaTopic = c.KafkaListen, c.KafkaTopic
	}
	if s.Services.Predictor.Maps.Capacity > 0 { // they are of all rows
		s.Count["predictor"], c.RowsToPredictor = 1, AllRows
	}
	tc := c.TelemetryFlags.Config("switchyard", c.ModelFlags)
	TellDevice(e, s.Services, c.ModelFlags, &tc)
	if c.Policy != "" {
		tc.Device = "paced:" + c.Platform
	}
	if first == nil {
		s.Node, err = NewNode(ctx, e, c.ModelFlags, tc)
	} else {
		s.Node, err = nodeBeside(ctx, e, c.ModelFlags, tc, first)
	}
	if err != nil {
		return s, err
	}
	s.Node.Shared.Class = ClassOf(s.Services, c.ModelFlags)
	if err := c.rent(e, &s); err != nil {
		return s, errors.Join(err, s.Node.Close())
	}
	if len(s.Node.Shared.Model.Spec.Layer) == 1 { // there is no later one to predict
		s.Count["predictor"] = 0
	}
	s.Auth = c.Auth.settings(e.Prefix, c.Listen, s.Node, s.Services.Tokenizer.Tenants)
	return s, nil
}

// InProcess returns the settings of commands that run everything for themselves: the
// defaults, no port, no control loop, and what set changes.
func InProcess(ctx context.Context, e *cli.Env, set func(*Cmd)) (s cluster.Settings, err error) {
	up, err := OwnUp()
	if err != nil {
		return s, err
	}
	up.Listen, up.HTTP, up.Scaling = "", noHTTP, noScaling
	set(&up)
	return settingsOf(ctx, e, []*Cmd{&up})
}

// OwnUp returns the defaults of a command that runs everything for itself. Nobody asks
// whether that is ready, so it sends no canaries.
func OwnUp() (up Cmd, err error) {
	err = cli.FillDefaults(&up)
	up.CanaryEvery = 0
	up.KVMemory, up.ExpertMemory = "64MiB", "0" // so that what is measured does not depend on the machine's memory
	return up, err
}

// ServiceConfigs returns what the flags say of each service.
func (c *Cmd) ServiceConfigs(g cli.Globals) (s cluster.Services, err error) {
	process := ProcessOf(g, c.ModelFlags)
	wrong := []error{c.computing(&s, process), c.ModelFlags.Check()}
	s.Predictor, err = c.predictor(process)
	wrong = append(wrong, cli.Wrongly(err))
	s.Tokenizer, err = c.TokenizerFlags.Config(process)
	wrong = append(wrong, cli.Wrongly(err))
	if s.Expert.Plans, err = c.PlanFlags.settings(); s.Attention.Brownout.Strategy == brownout.Partial {
		s.Expert.Plans.Way = s.Attention.Brownout.Way
	}
	wrong = append(wrong, cmp.Or(err, c.PlanFlags.checkUp(c.chosenScaling())))
	if c.Hosts < 1 || c.Hosts > maxHosts {
		wrong = append(wrong, cli.Usage(fmt.Errorf("--hosts is %d; it must be 1 to %d", c.Hosts, maxHosts)))
	}
	s.Kafka, err = c.KafkaFlags.Config(g.Insecure)
	wrong = append(wrong, err)
	if scaling := c.chosenScaling(); c.Scaling != noScaling {
		if scaling == noScaling {
			scaling = plan.Static // its settings are checked, though no scaler runs
		}
		s.Scaler, err = c.ScalingFlags.Config(scaling, c.KeepAlive, s.Expert.Profile)
		wrong = append(wrong, cli.Wrongly(err))
	}
	return s, errors.Join(wrong...)
}

// predictor returns what hosts are told of experts by, if they follow it, with maps by default.
func (c *Cmd) predictor(process service.Process) (predictor.Config, error) {
	flags := c.PredictorFlags
	if flags.Maps == "" && expert.Foresees(c.Offload) {
		flags.Maps = strconv.Itoa(expertmap.DefaultCapacity)
	}
	if c.Offload == expert.FMoEPlus {
		flags.Chances = predictor.Learned
	}
	return flags.Config(process)
}

// computing sets what computes attention, experts' choices and experts. What is on one
// GPU shares its watch.
func (c *Cmd) computing(s *cluster.Services, process service.Process) error {
	on, noGPU := c.StageFlags.attention()
	var attending, hosting, gating error
	s.Attention, attending = c.AttentionFlags.Config(process, on, c.United)
	s.Expert, hosting = c.ExpertFlags.Config(process)
	s.Gate, gating = c.StageFlags.gate()
	s.Expert.United, s.Gate.United = c.United, c.United
	s.Attention.GPU.Share(s.Expert.GPU)
	s.Gate.GPU.Share(s.Attention.GPU)
	s.Gate.GPU.Share(s.Expert.GPU)
	return errors.Join(cli.Wrongly(errors.Join(noGPU, attending, hosting, gating)), shared(s.Expert.GPU, s.Attention.GPU))
}

// shared refuses experts and attention on one GPU that both would take most of what is
// free: what each gets would depend on which of them begins.
func shared(experts, attention *gpus.GPU) error {
	if experts == nil || attention == nil || experts.Info.Index != attention.Info.Index || experts.Memory > 0 && attention.Memory > 0 {
		return nil
	}
	return cli.Usage(fmt.Errorf("experts and attention are on the same GPU (%d): give --gpu-memory, and --attention-gpu-memory where there is one, as numbers of bytes, such as 8GiB: 0 is nine tenths of what is free", experts.Info.Index))
}

// greet says how to talk to what runs.
func (c *Cmd) greet(e *cli.Env, y *cluster.Cluster, front httpDoor) {
	how := suggest(y.Settings.Node.Shared.Model)
	n, tenants := y.Settings.Node, ownTenants(y.Settings.Services.Tokenizer.Tenants)
	text := greeting(y.URL(), e.Prefix, n.ModelName(), how, y.Users(), tenants) + front.greeting(n.ModelName(), how) + kafkaGreeting(y.KafkaAddr(), y.Users())
	said := []any{"model", n.ModelName(), "url", y.URL(), "kafka", y.KafkaAddr(), "http", front.url()}
	if names := besideOf(y); len(names) > 0 {
		text += fmt.Sprintf("  beside it, asked in the same ways: %s\n", strings.Join(names, ", "))
		said = append(said, "beside", names)
	}
	e.Say(text, "ready", said...)
}

// kafkaGreeting says how other services reach the broker; empty where they do not.
func kafkaGreeting(addr string, users *credentials.Folder) string {
	if addr == "" {
		return ""
	}
	login := ""
	if users != nil {
		login = fmt.Sprintf(" --kafka-sasl scram-sha-256 --kafka-user %s --kafka-password-file %s", credentials.KafkaUser, users.KafkaPasswordFile())
	}
	return fmt.Sprintf("  loads of experts: --kafka %s%s\n", addr, login)
}

// suggestion is how a model can be asked, as arguments in a shell.
type suggestion struct {
	prompt string // of switchyard prompt; empty: that cannot ask it
	body   string // of a message
	text   bool   // it is one, and so is the answer
}

// suggest returns what the model answers. A text is left to models with a tokenizer that has
// what the task needs.
func suggest(m *model.Model) suggestion {
	const ids = `"input_ids":[1,2,3]`
	t, err := tokenizer.Open(m.File)
	switch task := m.Spec.Task(); {
	case task == model.Fill:
		return suggestFilling(m.Spec.Mask, t)
	case task == model.Answer && m.Spec.DecoderStart < 0:
		return suggestion{body: "{" + ids + `,"decoder_input_ids":[1]}`}
	case err != nil:
		return suggestion{prompt: "--ids 1,2,3", body: "{" + ids + "}"}
	}
	return suggestText("Once upon a time")
}

// suggestFilling returns what an encoder answers, whose mask is not known where the tokenizer is nil, or
// has none, and the model's configuration names none: then it only scores.
func suggestFilling(mask int, t *tokenizer.Tokenizer) suggestion {
	if t != nil {
		if own, ok := t.Mask(); ok && (mask < 0 || mask == int(own)) {
			return suggestText("Once upon a " + t.Decode([]uint32{own}, false))
		}
	}
	if mask < 0 {
		return suggestion{body: `{"input_ids":[1,2,3],"score":"logprobs"}`}
	}
	return suggestion{prompt: fmt.Sprintf("--ids 1,%d,3", mask), body: fmt.Sprintf(`{"input_ids":[1,%d,3]}`, mask)}
}

// suggestText returns how a model is asked that answers texts.
func suggestText(text string) suggestion {
	return suggestion{prompt: `"` + text + `"`, body: text, text: true}
}

// greeting returns commands that work as they stand.
func greeting(url, prefix, model string, how suggestion, users *credentials.Folder, tenants []string) string {
	common := "--nats " + url + " --model " + model
	if prefix != schemas.DefaultPrefix {
		common += " --prefix " + prefix
	}
	// A text answer ends with an empty message; a JSON one does not, so that the
	// tool ends by its own clock.
	pause := "5s"
	if how.text {
		pause = "60s"
	}
	as := logins(users)
	var prompt, tenantsToo string
	if how.prompt != "" {
		prompt = fmt.Sprintf("  switchyard prompt %s%s %s\n", common, as.producer, how.prompt)
		tenantsToo = tenantPrompts(users, common, how.prompt, tenants)
	}
	return fmt.Sprintf(`ready
model %s is served at %s

%s  nats req -s %s%s %s.ask.%s '%s' --wait-for-empty --raw --timeout 60s --reply-timeout %s
  switchyard top %s%s
%s`, model, url, prompt, url, as.tool, prefix, model, how.body, pause, common, as.top, tenantsToo)
}
