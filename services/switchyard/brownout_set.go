package main

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/terminal"
)

// Run sets thresholds and a way, or nothing if the controller does not use the way.
func (c *BrownoutSetCmd) Run(ctx context.Context, e *cli.Env) error {
	change, err := c.change()
	if err != nil {
		return err
	}
	if err := c.apply(ctx, e, change, c.refuse); err != nil {
		return err
	}
	return c.plan(ctx, e)
}

// refuse says why the controller does not use the way.
func (c *BrownoutSetCmd) refuse(d *pb.Directive) error {
	if c.Way == nil || d.Strategy != pb.Strategy_STRATEGY_PARTIAL || int(d.Way) == *c.Way {
		return nil
	}
	return cli.Usage(fmt.Errorf("--way is %d, which is not used, and is taken back with what else this command set. The controller says: %s", *c.Way, terminal.Clean(d.Reason)))
}

// plan has plans have united experts of the way that is set.
func (c *BrownoutSetCmd) plan(ctx context.Context, e *cli.Env) error {
	if c.Way == nil {
		return nil
	}
	conn, kv, err := PlanFrom{Model: c.Model, ConnectFlags: c.ConnectFlags}.open(ctx, e)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, c.ConnectTimeout)
	defer cancel()
	_, err = planstore.ChangeSettings(ctx, kv, plan.Settings{Way: *c.Way})
	return cli.Explained(conn, err)
}

// change returns what the flags name, checked before anything is dialled.
func (c *BrownoutSetCmd) change() (func(*pb.BrownoutSettings) *pb.BrownoutSettings, error) {
	if c.Prefill == nil && c.Decode == nil && c.Way == nil {
		return nil, cli.Usage(errors.New("nothing to set; give --prefill, --decode or --way"))
	}
	var at [2]*uint32
	for i, flag := range []struct {
		name  string
		share *float64
	}{{"prefill", c.Prefill}, {"decode", c.Decode}} {
		if flag.share == nil {
			continue
		}
		millionths, err := brownout.Millionths(*flag.share)
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("--%s: %w", flag.name, err))
		}
		at[i] = proto.Uint32(uint32(millionths))
	}
	if c.Way != nil && (*c.Way < 2 || *c.Way > mostWay) {
		return nil, cli.Usage(fmt.Errorf("--way is %d; a united expert stands in for at least 2 experts, and at most all of a layer's", *c.Way))
	}
	return func(old *pb.BrownoutSettings) *pb.BrownoutSettings { return c.with(old, at) }, nil
}

// mostWay bounds what is calculated with; the controller knows the model.
const mostWay = 1 << 16

// with returns what is wanted beside what was: a threshold that was never set is 1.
func (c *BrownoutSetCmd) with(old *pb.BrownoutSettings, at [2]*uint32) *pb.BrownoutSettings {
	want := proto.CloneOf(old)
	if c.Way != nil {
		want.Way = uint32(*c.Way)
	}
	if at[0] == nil && at[1] == nil {
		return want
	}
	if old.Mode != pb.BrownoutMode_BROWNOUT_MODE_SET {
		want.PrefillMillionths, want.DecodeMillionths = brownout.One, brownout.One
	}
	want.Mode = pb.BrownoutMode_BROWNOUT_MODE_SET
	for i, to := range []*uint32{&want.PrefillMillionths, &want.DecodeMillionths} {
		if at[i] != nil {
			*to = *at[i]
		}
	}
	return want
}
