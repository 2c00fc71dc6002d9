package cli

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
		{nil, ExitDone},
		{errors.New("anything"), ExitFailed},
		{Usage(errors.New("a flag")), ExitUsage},
		{fmt.Errorf("starting: %w", &deployment.WeightsError{Doing: "loading the gates", Err: errors.New("a scale is NaN")}), ExitUsage},
		{&deployment.WeightsError{Doing: "loading the gates", Err: &gpus.Error{Err: kernels.ErrLost}}, ExitFailed},
		{fmt.Errorf("serving: %w", errors.Join(bus.ErrClosed, context.Canceled)), ExitNoServer},
		{fmt.Errorf("asking: %w", bus.ErrNoConnection), ExitNoServer},
		{&client.Error{Code: client.CodeInterrupted}, ExitNoServer},
		{&client.Error{Code: client.CodeBadRequest}, ExitUsage},
		{&client.Error{Code: client.CodeOverloaded}, ExitFailed},
		{fmt.Errorf("waiting: %w", context.Canceled), ExitInterrupted},
		{ErrInterrupted, ExitInterrupted},
	} {
		if got := ExitCode(tc.err); got != tc.want {
			t.Errorf("%v: %d, want %d", tc.err, got, tc.want)
		}
	}
}
