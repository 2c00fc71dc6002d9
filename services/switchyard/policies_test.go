package main

import (
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testplan"
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// A policy that is registered is told of by the help of what plans.
func TestRegisteredPolicyInHelp(t *testing.T) {
	policy := testplan.StackingPolicy()
	defer registry.Register(policy)()
	for _, command := range []string{"scaler", "up", "plan set"} {
		if got := invoke("", append(strings.Fields(command), "--help")...); !strings.Contains(strings.Join(strings.Fields(got.Out), " "), policy.Name) {
			t.Errorf("%s --help does not have it: %s", command, got.Out)
		}
	}
}

// What is no policy, or no setting of one, is refused with what is nearest, before anything
// is dialled.
func TestUnknownPolicies(t *testing.T) {
	for _, tc := range testkit.Some([]struct {
		args []string
		want string
	}{
		{[]string{"up", "--scaling", "moles"}, `--scaling: there is no policy "moles"; nearest is moeless;`},
		{[]string{"up", "--scaling", "oracle"}, "--scaling: policy oracle cannot be chosen here; there are: static, eplb,"},
		{[]string{"up", "--scaling", "moeless:every=3s"}, "--scaling: policy moeless: every is a setting of eplb, eplb+,"},
		{[]string{"scaler", "--kafka", "127.0.0.1:1", "--scaling", "eplb:every=1"}, `every is "1"; it must be a time such as 10s from 1s to 86400s`},
		{[]string{"scaler", "--kafka", "127.0.0.1:1", "--profile", "a6001"}, "--profile: "},
		{[]string{"plan", "set", "--policy", "statik"}, `there is no policy "statik"; nearest is static;`},
	}) {
		if got := invoke("", tc.args...); got.Code != cli.ExitUsage || !strings.Contains(got.Err, tc.want) {
			t.Errorf("%v: %+v, want %q", tc.args, got, tc.want)
		}
	}
}
