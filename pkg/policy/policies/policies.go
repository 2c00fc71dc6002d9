// Package policies registers all policies there are. A program that looks one up in
// pkg/policy/registry imports this package for its effect.
package policies

import (
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/copies"
	"github.com/switchyard/switchyard/pkg/policy/eplb"
	"github.com/switchyard/switchyard/pkg/policy/moeless"
	"github.com/switchyard/switchyard/pkg/policy/oracle"
	"github.com/switchyard/switchyard/pkg/policy/reactive"
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/pkg/policy/roundrobin"
	"github.com/switchyard/switchyard/pkg/policy/static"
)

// The order is that of reports.
func init() {
	registry.Register(slices.Concat(
		[]registry.Policy{static.Policy()},
		eplb.Policies(),
		[]registry.Policy{reactive.Policy(), oracle.Policy(), moeless.Policy()},
		copies.Policies(),
		[]registry.Policy{roundrobin.Policy()},
	)...)
}
