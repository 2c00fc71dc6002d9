// Package service is what the command knows of each service: beside its description for
// everything else (pkg/transport/catalog), its own flags and how a replica is made. A
// service's folder makes its Descriptor, and package services lists them.
package service

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/catalog"
	"github.com/switchyard/switchyard/pkg/transport/kafka"
)

// Descriptor is a service as a process runs it.
type Descriptor struct {
	catalog.Service
	// Flags makes its own flags, at their zero values; nil: it has none.
	Flags func() Flags
	// Loads says what it has to do with samples of experts' loads.
	Loads Loads
	// Reloads says that its replicas take other settings while they run (Reload).
	Reloads bool
	// New makes one replica that is not started.
	New func(*deployment.Deployment, Settings) (lifecycle.Service, error)
	// Bare makes one replica of a service that has no model, in New's place.
	Bare func(Bare, Settings) (lifecycle.Service, error)
	// Check refuses settings with which a model cannot be served; nil: there are none.
	Check func(Settings, *model.Model) error
	// Prepare writes what the deployment is to have before a replica starts; nil: nothing.
	Prepare func(context.Context, *deployment.Deployment, Settings) error
}

// Bare is what a replica without a model is made of.
type Bare struct {
	// ID is the replica's.
	ID   string
	Conn *bus.Conn
	// Prefix is the first token of every subject, and Version the binary's.
	Prefix, Version string
	Telemetry       *telemetry.Telemetry
	Logger          *slog.Logger
}

// Settings are what a replica is made with.
type Settings struct {
	// Own is what Flags.Config returned; nil: nothing is set.
	Own any
	// Kafka is where samples of loads go, and come from; nil: nowhere.
	Kafka *kafka.Config
}

// Own returns the settings of a service's own kind, and their zero value where nothing is set.
func Own[C any](s Settings) C {
	own, _ := s.Own.(C)
	return own
}

// NewOf makes a Descriptor's New of a service's constructor.
func NewOf[C any, S lifecycle.Service](made func(*deployment.Deployment, C) S) func(*deployment.Deployment, Settings) (lifecycle.Service, error) {
	return func(d *deployment.Deployment, s Settings) (lifecycle.Service, error) { return made(d, Own[C](s)), nil }
}

// CheckOf is a Descriptor's Check, of the settings' own.
func CheckOf[C interface{ Check(*model.Model) error }](s Settings, m *model.Model) error {
	return Own[C](s).Check(m)
}

// Loads is what a service has to do with samples of experts' loads.
type Loads struct {
	// Flags says that it takes the flags of Kafka.
	Flags bool
	// Unheard is logged where they name no broker; Missing is an error then. Empty: neither.
	Unheard, Missing string
}

// Flags are a service's own flags.
type Flags struct {
	// Struct points to a struct with the tags of the command line's parser.
	Struct any
	// Config is the settings that they say. Its error is of what the operator gave.
	Config func(Process) (any, error)
}

// FlagsOf makes a Descriptor's Flags of a struct's method.
func FlagsOf[F, C any](config func(*F, Process) (C, error)) func() Flags {
	return func() Flags {
		f := new(F)
		return Flags{f, func(p Process) (any, error) { return config(f, p) }}
	}
}

// Process is what flags are read with beside themselves.
type Process struct {
	// Prefix is the first token of every subject, and Version the binary's, as NATS services
	// must have it.
	Prefix, Version string
	// MaxModelLen bounds a sequence in tokens; 0 is the model's limit.
	MaxModelLen int
	// Insecure allows what is not encrypted off the loopback.
	Insecure bool
	// GPU looks whether the GPU of a number can be used.
	GPU func(index int) (*gpus.GPU, error)
}

// CheckRange refuses a flag's number that is out of its range.
func CheckRange(flag string, value, least, most int) error {
	if value < least || value > most {
		return fmt.Errorf("--%s is %d; it must be %d to %d", flag, value, least, most)
	}
	return nil
}
