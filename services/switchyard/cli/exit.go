package cli

import (
	"context"
	"errors"

	kernels "github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/pkg/transport/bus"
)

// Exit codes that scripts rely on.
const (
	ExitDone        = 0
	ExitFailed      = 1 // the request or check failed
	ExitUsage       = 2 // wrong usage or unusable input
	ExitNoServer    = 3 // no connection
	ExitInfeasible  = 3 // before any server is asked: no plan keeps the SLO
	ExitInterrupted = 130
)

// ExitError is an error with the code to exit with.
type ExitError struct {
	Code int // one of the Exit constants
	Err  error
}

// Error returns the words without the code.
func (e *ExitError) Error() string { return e.Err.Error() }

// Unwrap returns the error without the code.
func (e *ExitError) Unwrap() error { return e.Err }

// Usage marks an error as wrong usage or unusable input.
func Usage(err error) error { return &ExitError{ExitUsage, err} }

// Wrongly is Usage of an error if there is one.
func Wrongly(err error) error {
	if err == nil {
		return nil
	}
	return Usage(err)
}

// ErrQuiet needs no words: what happened has been told on stdout. A check that
// printed its result fails with &ExitError{ExitFailed, ErrQuiet}.
var ErrQuiet = errors.New("told already")

// ErrInterrupted is how a command ends that a signal kept from its result. A
// service that was asked to stop and has drained returns nil instead.
var ErrInterrupted = &ExitError{ExitInterrupted, errors.New("interrupted")}

// afterSignal returns err, or ErrInterrupted where all that err says is that a signal ended the
// command. A command with more to say of that end has ExitInterrupted with its error.
func afterSignal(ctx context.Context, err error) error {
	var own *ExitError
	switch {
	case ctx.Err() == nil, errors.As(err, &own) && own.Code == ExitInterrupted:
		return err
	case errors.Is(err, context.Canceled), isCancelled(err):
		return ErrInterrupted
	}
	return err
}

func isCancelled(err error) bool {
	var e *client.Error
	return errors.As(err, &e) && e.Code == client.CodeCancelled
}

// UntilSignal does what does not look at ctx, such as reading stdin: a signal ends it
// at once, and what it is at ends with the process.
func UntilSignal(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ErrInterrupted
	}
}

// ExitCode returns the code to exit with for an error.
func ExitCode(err error) int {
	var withCode *ExitError
	var answer *client.Error
	var gpu *gpus.Error
	var settings *bus.SettingsError
	var weights *deployment.WeightsError
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &withCode):
		return withCode.Code
	case errors.As(err, &answer):
		return codeOf(answer)
	case errors.Is(err, bus.ErrNoConnection), errors.Is(err, bus.ErrClosed):
		return ExitNoServer
	case errors.As(err, &gpu) && !errors.Is(err, kernels.ErrLost):
		return ExitUsage // it is not what was asked for, or has too little memory
	case errors.As(err, &weights) && gpu == nil:
		return ExitUsage
	case errors.As(err, &settings), errors.Is(err, bus.ErrCredentials):
		return ExitUsage
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	}
	return ExitFailed
}

// withCure adds what to do about an error, where it does not say so itself.
func withCure(err error) error {
	var answer *client.Error
	if errors.As(err, &answer) && bus.IsDenied(err) {
		return err
	}
	return bus.WithCure(err)
}

// codeOf returns the exit code of a request without a full answer.
func codeOf(e *client.Error) int {
	switch e.Code {
	case client.CodeBadRequest, client.CodeBadPrompt, client.CodePayloadTooLarge:
		return ExitUsage
	case client.CodeInterrupted:
		return ExitNoServer
	}
	return ExitFailed
}
