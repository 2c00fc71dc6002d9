package scaler

import (
	"errors"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/internal/flagvalue"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/process/service"
	"github.com/switchyard/switchyard/pkg/transport/catalog"
)

// Descriptor returns the service as a process runs it.
func Descriptor() service.Descriptor {
	return service.Descriptor{
		Service: catalog.Scaler, Flags: service.FlagsOf((*Command).Config),
		Loads: service.Loads{Flags: true, Missing: "--kafka is missing: give HOST:PORT of the Kafka that gates and hosts send loads to"},
		New: func(d *deployment.Deployment, s service.Settings) (lifecycle.Service, error) {
			c := service.Own[Config](s)
			if s.Kafka != nil { // it reads where the others write
				c.Kafka = *s.Kafka
			}
			return New(d, c), nil
		},
	}
}

// Command are the flags of a process that is a scaler alone.
type Command struct {
	Flags `embed:""`

	Scaling   string        `default:"${default_policy}" help:"Who decides how many replicas experts have: ${live_policies}; with its own settings as in eplb:every=300s (docs/policies.md)." placeholder:"NAME"`
	Profile   string        `help:"What accesses take on the hosts, for policies that decide by that (moeless+): the name of a profile, or a YAML file, such as bench --profile-out writes; without it rows take what hosts tell, and reading weights nothing." placeholder:"NAME|FILE"`
	KeepAlive time.Duration `default:"60s" help:"How long experts without rows, and replicas that are not needed any more, stay loaded." placeholder:"TIME" advanced:""`
}

// Config returns what the flags say.
func (c *Command) Config(service.Process) (Config, error) {
	if c.Profile == "" {
		return c.Flags.Config(c.Scaling, c.KeepAlive, nil)
	}
	hosts, err := profiles.Open(c.Profile)
	if err != nil {
		err = fmt.Errorf("--profile: %w", err)
	}
	own, wrong := c.Flags.Config(c.Scaling, c.KeepAlive, hosts)
	return own, errors.Join(wrong, err)
}

// Flags are the scaler's own, but for those that a host has as well.
type Flags struct {
	CV          float64       `name:"cv" default:"0.2" help:"How unevenly rows may be divided among a layer's replicas before one is added: standard deviation by mean." placeholder:"RATIO" advanced:""`
	MemoryCap   string        `default:"8GB" help:"Most memory of a layer's replicas beyond the first of each expert." placeholder:"BYTES" advanced:""`
	Horizon     time.Duration `default:"10s" help:"How long a change may take to save the time that it costs; replicas that are not needed for as long are retired." placeholder:"TIME" advanced:""`
	MessageTime string        `default:"measured" help:"What one more message makes a layer take; each replica more is some in every step. measured: as attention tells, and 25us until then; 0s: replicas are added as if messages were free." placeholder:"TIME" advanced:""`
	ZeroAfter   time.Duration `default:"0s" help:"How long an expert has no rows before it goes to zero, not less than --keep-alive; 0s: as long as --keep-alive, or as the policy says (moeless+lean: layers go one after the other, the first one last)." placeholder:"TIME" advanced:""`
	Worth       float64       `default:"0.01" help:"Part of all time that a replica in every layer has to save to be worth its memory; 0: any saving is." placeholder:"PART" advanced:""`
	Feedback    bool          `default:"true" negatable:"" help:"Undo changes after which layers take no less time, and leave those layers alone for a while."`
}

// messageMeasured is the --message-time that attention tells.
const messageMeasured = "measured"

// messageTime returns nil where it is measured.
func (f Flags) messageTime() (*time.Duration, error) {
	if f.MessageTime == messageMeasured || f.MessageTime == "" {
		return nil, nil //nolint:nilnil // no time is set
	}
	d, err := time.ParseDuration(f.MessageTime)
	if err != nil {
		return nil, fmt.Errorf("--message-time is %.64q; give %s, or a time such as 25us", f.MessageTime, messageMeasured)
	}
	return &d, nil
}

// Config returns what the flags say, of a policy with its settings and a time of keep-alive; of the hosts'
// profile, where there is one, it has what accesses and loads take.
func (f Flags) Config(scaling string, keepAlive time.Duration, hosts *profiles.Profile) (Config, error) {
	limit, err := flagvalue.Bytes("memory-cap", f.MemoryCap)
	if err != nil {
		return Config{}, err
	}
	message, err := f.messageTime()
	if err != nil {
		return Config{}, err
	}
	c := Config{
		Scaling: scaling, CV: f.CV, MemoryCap: uint64(limit), KeepAlive: keepAlive, ZeroAfter: f.ZeroAfter, Horizon: f.Horizon,
		MessageTime: message, Worth: f.Worth, Unjudged: !f.Feedback,
	}
	if hosts != nil {
		takes := hosts.Compute()
		c.Takes, c.Load = &takes, hosts.Start()+hosts.Transfer()
	}
	return c, c.Check()
}
