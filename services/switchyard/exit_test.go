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
)

// Scripts, and what keeps processes alive, go by the code: a connection that is closed for
// good is one that a new process may have again.
func TestExitCodes(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want int
	}{
		{nil, exitDone},
		{errors.New("anything"), exitFailed},
		{usage(errors.New("a flag")), exitUsage},
		{fmt.Errorf("starting: %w", &deployment.WeightsError{Doing: "loading the gates", Err: errors.New("a scale is NaN")}), exitUsage},
		{&deployment.WeightsError{Doing: "loading the gates", Err: &gpus.Error{Err: kernels.ErrLost}}, exitFailed},
		{fmt.Errorf("serving: %w", errors.Join(bus.ErrClosed, context.Canceled)), exitNoServer},
		{fmt.Errorf("asking: %w", bus.ErrNoConnection), exitNoServer},
		{&client.Error{Code: client.CodeInterrupted}, exitNoServer},
		{&client.Error{Code: client.CodeBadRequest}, exitUsage},
		{&client.Error{Code: client.CodeOverloaded}, exitFailed},
		{fmt.Errorf("waiting: %w", context.Canceled), exitInterrupted},
		{errInterrupted, exitInterrupted},
	} {
		if got := exitCode(tc.err); got != tc.want {
			t.Errorf("%v: %d, want %d", tc.err, got, tc.want)
		}
	}
}
