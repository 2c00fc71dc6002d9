package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/services/scaler"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// ScalerCmd runs a scaler.
type ScalerCmd struct {
	ModelFlags     `embed:"" group:"Model and pipeline:"`
	ScalingFlags   `embed:""`
	KafkaFlags     `embed:"" group:"Kafka:"`
	TelemetryFlags `embed:"" group:"Metrics and traces:"`

	Scaling   string        `default:"${default_policy}" help:"Who decides how many replicas experts have: ${live_policies}; with its own settings as in eplb:every=300s (docs/policies.md)." placeholder:"NAME"`
	Profile   string        `help:"What accesses take on the hosts, for policies that decide by that (moeless+): the name of a profile, or a YAML file, such as bench --profile-out writes; without it rows take what hosts tell, and reading weights nothing." placeholder:"NAME|FILE"`
	KeepAlive time.Duration `default:"60s" help:"How long experts without rows, and replicas that are not needed any more, stay loaded." placeholder:"TIME"`
}

// Run serves until a signal.
func (c *ScalerCmd) Run(ctx context.Context, e *env) error {
	cfg, wrong := c.ScalingFlags.config(c.Scaling, c.KeepAlive)
	profile, unreadable := c.profile()
	cfg.Takes = takes(profile)
	loads, err := c.KafkaFlags.config(e.Insecure)
	if err == nil && loads == nil {
		err = usage(errors.New("--kafka is missing: give HOST:PORT of the Kafka that gates and hosts send loads to"))
	}
	return serve(ctx, e, "scaler", c.ModelFlags, c.TelemetryFlags, cluster.Services{Scaler: cfg, Kafka: loads}, errors.Join(wrong, unreadable, err))
}

// profile is that of the hosts, nil where none is named.
func (c *ScalerCmd) profile() (*profiles.Profile, error) {
	if c.Profile == "" {
		return nil, nil
	}
	p, err := profiles.Open(c.Profile)
	if err != nil {
		return nil, usage(fmt.Errorf("--profile: %w", err))
	}
	return p, nil
}

// takes is what accesses take by a profile; nil where there is none.
func takes(p *profiles.Profile) *cost.Device {
	if p == nil {
		return nil
	}
	d := p.Compute()
	return &d
}

// ScalingFlags are the scaler's own, but for those that a host has as well.
type ScalingFlags struct {
	CV          float64       `name:"cv" default:"0.2" help:"How unevenly rows may be divided among a layer's replicas before one is added: standard deviation by mean." placeholder:"RATIO"`
	MemoryCap   string        `default:"8GB" help:"Most memory of a layer's replicas beyond the first of each expert." placeholder:"BYTES"`
	Horizon     time.Duration `default:"10s" help:"How long a change may take to save the time that it costs; replicas that are not needed for as long are retired." placeholder:"TIME"`
	MessageTime string        `default:"measured" help:"What one more message makes a layer take; each replica more is some in every step. measured: as attention tells, and 25us until then; 0s: replicas are added as if messages were free." placeholder:"TIME"`
	ZeroAfter   time.Duration `default:"0s" help:"How long an expert has no rows before it goes to zero; 0s: as long as --keep-alive." placeholder:"TIME"`
	Worth       float64       `default:"0.04" help:"Part of all time that a replica in every layer has to save to be worth its memory; 0: any saving is." placeholder:"PART"`
	Feedback    bool          `default:"true" negatable:"" help:"Undo changes after which layers take no less time, and leave those layers alone for a while."`
}

// messageMeasured is the --message-time that attention tells.
const messageMeasured = "measured"

// messageTime is nil where it is measured.
func (f ScalingFlags) messageTime() (*time.Duration, error) {
	if f.MessageTime == messageMeasured || f.MessageTime == "" {
		return nil, nil //nolint:nilnil // no time is set
	}
	d, err := time.ParseDuration(f.MessageTime)
	if err != nil {
		return nil, usage(fmt.Errorf("--message-time is %.64q; give %s, or a time such as 25us", f.MessageTime, messageMeasured))
	}
	return &d, nil
}

func (f ScalingFlags) config(scaling string, keepAlive time.Duration) (scaler.Config, error) {
	limit, err := parseBytes("memory-cap", f.MemoryCap)
	if err != nil {
		return scaler.Config{}, err
	}
	message, err := f.messageTime()
	if err != nil {
		return scaler.Config{}, err
	}
	c := scaler.Config{
		Scaling: scaling, CV: f.CV, MemoryCap: uint64(limit), KeepAlive: keepAlive, ZeroAfter: cmp.Or(f.ZeroAfter, keepAlive), Horizon: f.Horizon,
		MessageTime: message, Worth: f.Worth, Unjudged: !f.Feedback,
	}
	if err := c.Check(); err != nil {
		return c, usage(err)
	}
	return c, nil
}
