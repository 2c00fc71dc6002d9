package main

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
	exitDone        = 0
	exitFailed      = 1 // the request or check failed
	exitUsage       = 2 // wrong usage or unusable input
	exitNoServer    = 3 // no connection
	exitInfeasible  = 3 // before any server is asked: no plan keeps the SLO
	exitInterrupted = 130
)

// exitError is an error with the code to exit with.
type exitError struct {
	code int
	err  error
}

// Error is the words without the code.
func (e *exitError) Error() string { return e.err.Error() }

// Unwrap is the error without the code.
func (e *exitError) Unwrap() error { return e.err }

// usage marks an error as wrong usage or unusable input.
func usage(err error) error { return &exitError{exitUsage, err} }

// wrongly is usage of an error if there is one.
func wrongly(err error) error {
	if err == nil {
		return nil
	}
	return usage(err)
}

// errQuiet needs no words: what happened has been told on stdout. A check that
// printed its result fails with &exitError{exitFailed, errQuiet}.
var errQuiet = errors.New("told already")

// errInterrupted is how a command ends that a signal kept from its result. A
// service that was asked to stop and has drained returns nil instead.
var errInterrupted = &exitError{exitInterrupted, errors.New("interrupted")}

// afterSignal is err, or errInterrupted where all that err says is that a signal ended the
// command. A command with more to say of that end has exitInterrupted with its error.
func afterSignal(ctx context.Context, err error) error {
	var own *exitError
	switch {
	case ctx.Err() == nil, errors.As(err, &own) && own.code == exitInterrupted:
		return err
	case errors.Is(err, context.Canceled), isCancelled(err):
		return errInterrupted
	}
	return err
}

// isCancelled says whether a request ended because it was cancelled.
func isCancelled(err error) bool {
	var e *client.Error
	return errors.As(err, &e) && e.Code == client.CodeCancelled
}

// untilSignal does what does not look at ctx, such as reading stdin: a signal ends it
// at once, and what it is at ends with the process.
func untilSignal(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errInterrupted
	}
}

// exitCode maps an error to the code to exit with.
func exitCode(err error) int {
	var withCode *exitError
	var answer *client.Error
	var gpu *gpus.Error
	var settings *bus.SettingsError
	var weights *deployment.WeightsError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &withCode):
		return withCode.code
	case errors.As(err, &answer):
		return codeOf(answer)
	case errors.Is(err, bus.ErrNoConnection), errors.Is(err, bus.ErrClosed):
		return exitNoServer
	case errors.As(err, &gpu) && !errors.Is(err, kernels.ErrLost):
		return exitUsage // it is not what was asked for, or has too little memory
	case errors.As(err, &weights) && gpu == nil:
		return exitUsage
	case errors.As(err, &settings), errors.Is(err, bus.ErrCredentials):
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	return exitFailed
}

// withCure adds what to do about an error, where it does not say so itself.
func withCure(err error) error {
	var answer *client.Error
	if errors.As(err, &answer) && bus.IsDenied(err) {
		return err
	}
	return bus.WithCure(err)
}

// codeOf is the exit code of a request without a full answer.
func codeOf(e *client.Error) int {
	switch e.Code {
	case client.CodeBadRequest, client.CodeBadPrompt, client.CodePayloadTooLarge:
		return exitUsage
	case client.CodeInterrupted:
		return exitNoServer
	}
	return exitFailed
}
