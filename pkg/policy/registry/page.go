package registry

import (
	"fmt"
	"strings"
)

// where are the uses, as a reader looks for them.
var where = []struct {
	use  Use
	text string
}{
	{Live, "--scaling"}, {Simulated, "arena"}, {Hosts, "plan set --policy"}, {Scaling, "policy scale"}, {Placing, "policy place"},
}

// Page is docs/policies.md: all policies with their settings.
func Page() string {
	var b strings.Builder
	b.WriteString(`# Policies

Made of the registry (pkg/policy/registry); ` + "`go test ./pkg/policy/policies -rewrite`" + ` writes it anew.
A policy is a folder of pkg/policy and one registration in pkg/policy/policies. Its settings stand
behind its name: ` + "`--scaling eplb:every=300s`" + `.

` + "`--scaling`" + ` says how many replicas experts have. ` + "[`--offload`](operations/offload.md)" + ` says what a host does with more experts than
its memory holds. ` + "`up --policy`" + ` rents experts as functions, [remoe](remoe.md) or [bo-ods](bo-ods.md), and refuses ` + "`--scaling` and `--offload`" + `.
` + "`up --scaling auto`" + `, its default, is ` + "`moeless+lean`" + ` where hosts have devices of their own, and none where they share processors: copies gain nothing there.

| policy | what it does | goes by | chosen by |
|---|---|---|---|
`)
	for _, p := range All(0) {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", p.Name, p.About, p.goesBy(), p.Uses)
	}
	b.WriteString("\n| setting | of | default | from, to | what it is |\n|---|---|---|---|---|\n")
	for _, p := range All(0) {
		for _, s := range p.Settings {
			fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s, %s | %s%s |\n", s.Name, p.Name, s.Text(s.Default), s.Text(s.Min), s.Text(s.Max), s.Help, s.only())
		}
	}
	return b.String()
}

// goesBy is what a policy knows of loads, and how often it is asked.
func (p *Policy) goesBy() string {
	switch {
	case p.Decide == nil:
		return "nothing"
	case p.Sees == Past && p.Every > 0:
		return fmt.Sprintf("the past %v s", p.Every)
	}
	return p.Sees.String()
}

// String names uses by what chooses them.
func (u Use) String() string {
	var ways []string
	for _, w := range where {
		if u&w.use != 0 {
			ways = append(ways, w.text)
		}
	}
	return strings.Join(ways, ", ")
}

// only says where a setting counts, if not everywhere.
func (s Setting) only() string {
	if s.Uses == 0 {
		return ""
	}
	return " (" + s.Uses.String() + " only)"
}
