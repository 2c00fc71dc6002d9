package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/switchyard/switchyard/internal/wholefile"
	"github.com/switchyard/switchyard/loadtest/checkpoint"
	"github.com/switchyard/switchyard/loadtest/verify"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// VerifyCmd compares checkpoints with outputs of Hugging Face transformers.
type VerifyCmd struct {
	cli.KernelsFlag `embed:""`
	up.KVCacheFlag  `embed:""`

	Dirs []string `arg:"" name:"dir" help:"Model directories with golden.safetensors and golden.json beside the weights. A copy by quantise that differs from its model's is NOT JUDGED, which is no failure."`
	Wire string   `default:"f32" enum:"f32,bf16" help:"Element type of rows between services; bf16 reports and does not judge, and so does a --kv-cache-dtype of fewer bits." placeholder:"TYPE"`
	Hops string   `default:"unacked" enum:"acked,unacked,core" help:"How tensors travel: acked, unacked or core." placeholder:"KIND"`
	JSON bool     `name:"json" help:"Print one JSON object a directory."`

	Device    string `default:"cpu" help:"What computes experts, gates and attention: cpu, or cuda (a GPU, or cuda:N the one of that number)." placeholder:"KIND"`
	GPUMemory string `name:"gpu-memory" default:"0" help:"Memory of the GPU that experts take, and attention as much again, such as 4GiB; --device cuda needs it." placeholder:"BYTES"`

	GPUKernels string `name:"gpu-kernels" default:"auto" enum:"auto,mma,wgmma" help:"What multiplies weights of bf16 on a GPU: mma, on all of them, wgmma, on sm_90, or auto, wgmma where the GPU has it." placeholder:"NAME"`
}

// Run verifies every directory; one that differs, or cannot be compared, makes the
// command fail, and those behind it are compared all the same. A copy by quantise that
// differs is not judged, and does not.
func (c *VerifyCmd) Run(ctx context.Context, e *cli.Env) error {
	if c.Device == "paced" {
		return cli.Usage(errors.New("--device is paced; verify compares on cpu, cuda or cuda:N"))
	}
	e.Quiet()
	failed, errs := false, []error(nil)
	for _, dir := range c.Dirs {
		v, err := c.verify(ctx, e, dir)
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("verifying %s: %w", dir, err))
			continue
		}
		if err := cli.Show(e, c.JSON, v, v.String()+"\n"); err != nil {
			return err
		}
		failed = failed || !v.Pass && !v.Copy
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if failed {
		return &cli.ExitError{Code: cli.ExitFailed, Err: cli.ErrQuiet}
	}
	return nil
}

// verify runs one checkpoint through a pipeline of its own.
func (c *VerifyCmd) verify(ctx context.Context, e *cli.Env, dir string) (v *verify.Verdict, err error) {
	g, err := verify.ReadGolden(dir)
	if err != nil {
		return nil, cli.Usage(withoutGolden(dir, err))
	}
	v, packed, err := c.compare(ctx, e, g, false)
	if err != nil || v.Pass || !packed {
		return v, err
	}
	if cast, _, err := c.compare(ctx, e, g, true); err == nil && cast.Pass {
		return cast, nil
	}
	return v, nil
}

// withoutGolden says of a copy by quantise, which has no golden outputs, what else there is to compare.
func withoutGolden(dir string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	config, other := wholefile.Read(os.DirFS(dir), checkpoint.Config, maxConfig)
	if other != nil {
		return err
	}
	if spec, _, other := model.ParseSpec(config, nil); other != nil || !spec.Quant.Grouped() {
		return err
	}
	return fmt.Errorf("its matrices are codes; a copy by quantise has no golden outputs: verify the model that it is of, and compare perplexities by switchyard eval (%w)", err)
}

// maxConfig bounds config.json, in bytes.
const maxConfig = 1 << 20

// verifyPatience bounds the comparison of one checkpoint, whose experts may be
// such that no host loads them.
const verifyPatience = 5 * time.Minute

var errNoAnswer = fmt.Errorf("no answer within %v; the log says what is in the way", verifyPatience)

// compare says also whether the experts are in MXFP4. Outputs of such checkpoints
// may have been made by a model that was cast to bf16 and back, which rounds its
// rotary frequencies; with cast ours are rounded, too.
func (c *VerifyCmd) compare(ctx context.Context, e *cli.Env, g *verify.Golden, cast bool) (v *verify.Verdict, packed bool, err error) {
	line, dir := e.Progress(), g.Dir
	defer line.Clear()
	line.Set("starting a pipeline for %s…", dir)
	settings, err := up.InProcess(ctx, e, func(up *up.Cmd) {
		up.ModelFlags.Model, up.Wire, up.Hops = []string{dir}, c.Wire, c.Hops
		up.Device, up.GateDevice, up.AttentionDevice = c.Device, c.Device, c.Device
		up.KVCacheFlag = c.KVCacheFlag
		up.GPUMemory, up.AttentionGPUMemory, up.GPUKernels = c.GPUMemory, c.GPUMemory, c.GPUKernels
	})
	if err != nil {
		return nil, false, err
	}
	spec := &settings.Node.Shared.Model.Spec
	if cast {
		spec.CastRope()
	}
	y, err := up.OpenCluster(ctx, settings)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, y.Close()) }()
	if err := y.Ready(ctx); err != nil {
		return nil, false, err
	}
	line.Set("comparing %s…", dir)
	ctx, cancel := context.WithTimeoutCause(ctx, verifyPatience, errNoAnswer)
	defer cancel()
	if v, err = verify.Compare(ctx, y, g, c.Wire == string(tensor.F32) && !c.Kind().Rounds()); err != nil {
		return nil, false, cmp.Or(context.Cause(ctx), err)
	}
	v.RopeCast = cast
	return v, spec.Quant == model.MXFP4, nil
}
