package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	kernels "github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// Scripts, and what keeps processes alive, go by the code: a connection that is closed for
// good is one that a new process may have again.
func TestExitCodes(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want int
	}{
		{nil, cli.ExitDone},
		{errors.New("anything"), cli.ExitFailed},
		{cli.Usage(errors.New("a flag")), cli.ExitUsage},
		{fmt.Errorf("starting: %w", &deployment.WeightsError{Doing: "loading the gates", Err: errors.New("a scale is NaN")}), cli.ExitUsage},
		{&deployment.WeightsError{Doing: "loading the gates", Err: &gpus.Error{Err: kernels.ErrLost}}, cli.ExitFailed},
		{fmt.Errorf("serving: %w", errors.Join(bus.ErrClosed, context.Canceled)), cli.ExitNoServer},
		{fmt.Errorf("asking: %w", bus.ErrNoConnection), cli.ExitNoServer},
		{&client.Error{Code: client.CodeInterrupted}, cli.ExitNoServer},
		{&client.Error{Code: client.CodeBadRequest}, cli.ExitUsage},
		{&client.Error{Code: client.CodeOverloaded}, cli.ExitFailed},
		{fmt.Errorf("waiting: %w", context.Canceled), cli.ExitInterrupted},
		{cli.ErrInterrupted, cli.ExitInterrupted},
	} {
		if got := cli.ExitCode(tc.err); got != tc.want {
			t.Errorf("%v: %d, want %d", tc.err, got, tc.want)
		}
	}
}
