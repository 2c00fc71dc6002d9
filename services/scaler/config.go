package scaler

import (
	"fmt"
	"strings"
	"time"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/elastic"
	"github.com/switchyard/switchyard/pkg/transport/kafka"
)

// Config is what an operator sets.
type Config struct {
	// Kafka is where load samples come from.
	Kafka kafka.Config
	// Scaling is a policy that can be chosen live, with its settings (pkg/policy/registry).
	Scaling string
	// CV is the threshold up to which the replicas of a layer count as balanced.
	CV float64
	// MemoryCap bounds the bytes of a layer's replicas beyond each expert's first.
	MemoryCap uint64
	// KeepAlive is how long experts without rows, and replicas that are retired,
	// stay loaded.
	KeepAlive time.Duration
	// Horizon is how long a change may take to pay for itself.
	Horizon time.Duration
	// MessageTime is what one more message makes a layer take.
	MessageTime time.Duration
	// Takes is what an access takes on the hosts, for policies that decide by that; nil: they
	// go by what hosts tell of rows.
	Takes *cost.Device
}

// Check says what is wrong, by the names of the flags.
func (c Config) Check() error {
	for name, d := range map[string]time.Duration{"keep-alive": c.KeepAlive, "horizon": c.Horizon, "message-time": c.MessageTime} {
		if d < 0 || d > longest {
			return fmt.Errorf("--%s is %v; it must be 0 to %v", name, d, longest)
		}
	}
	if err := c.settings().Check(); err != nil {
		return fmt.Errorf("--%w", err)
	}
	return nil
}

// longest is the longest time that anything is waited for.
const longest = 24 * time.Hour

func (c Config) settings() elastic.Settings {
	s := elastic.DefaultSettings()
	s.Scaling, s.CV, s.MemoryCap = c.Scaling, c.CV, c.MemoryCap
	s.KeepAlive, s.Horizon, s.MessageSeconds = c.KeepAlive.Seconds(), c.Horizon.Seconds(), c.MessageTime.Seconds()
	s.Takes = c.Takes
	return s
}

// policy is the policy's name.
func (c Config) policy() string {
	name, _, _ := strings.Cut(c.Scaling, ":")
	return name
}
