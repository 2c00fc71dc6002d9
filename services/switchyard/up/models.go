package up

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// each returns the commands of the models that are served, one a model: what --model says several
// times, each of them says once.
func (c *Cmd) each() (all []*Cmd, err error) {
	if len(c.Model) < 2 {
		return []*Cmd{c}, c.checkHere()
	}
	if c.Name != "" {
		return nil, cli.Usage(fmt.Errorf("--name is %q, and there are %d models: leave it out, each has its folder's name", c.Name, len(c.Model)))
	}
	named := map[string]string{}
	for _, dir := range c.Model {
		one := *c
		one.Model = []string{dir}
		if err := errors.Join(one.checkHere(), one.checkName()); err != nil {
			return nil, err
		}
		name := one.ModelToken()
		if other, twice := named[name]; twice {
			return nil, cli.Usage(fmt.Errorf("--model %s and --model %s would both be served as %q; give one of the folders another name", other, dir, name))
		}
		named[name] = dir
		all = append(all, &one)
	}
	return all, c.checkShared()
}

// checkHere refuses a model that is in the server which this process starts.
func (c *Cmd) checkHere() error {
	if _, ok := c.InStore(); ok {
		return cli.Usage(fmt.Errorf("--model is %q; up starts the server that this would be read from: give a directory, or start the services one by one", c.dir()))
	}
	return nil
}

// checkShared refuses a GPU for several models: the first one takes what is free.
func (c *Cmd) checkShared() error {
	for _, on := range []struct{ flag, device string }{{"device", c.Device}, {"attention-device", c.AttentionDevice}, {"gate-device", c.GateDevice}} {
		if strings.HasPrefix(on.device, "cuda") {
			return cli.Usage(fmt.Errorf("--%s is %s, and there are %d models, of which the first would take what the GPU has free: start up once for each, with --gpu-memory and a --listen of its own", on.flag, on.device, len(c.Model)))
		}
	}
	return nil
}

// settingsOf returns the settings of all models on one server. Each has what the flags say for
// itself; threads and pages for operators they share.
func settingsOf(ctx context.Context, e *cli.Env, models []*Cmd) (s cluster.Settings, err error) {
	if s, err = models[0].settingsBeside(ctx, e, nil); err != nil {
		return s, err
	}
	for _, one := range models[1:] {
		own, err := one.settingsBeside(ctx, e, s.Node)
		if err != nil {
			return s, errors.Join(err, s.Close())
		}
		s.Beside = append(s.Beside, cluster.Beside{Node: own.Node, Services: own.Services, Count: own.Count})
		if s.Auth != nil {
			s.Auth.For.Scope.Models = append(s.Auth.For.Scope.Models, own.Auth.For.Scope.Models...)
		}
	}
	if err := shareOut(e, &s); err != nil {
		return s, errors.Join(err, s.Close())
	}
	return s, nil
}

// tellStages has the log say what becomes of each model's stages, and of which model a line is where there are several.
func tellStages(s *cluster.Settings) {
	s.Node.Shared.TellStages = true
	for _, b := range s.Beside {
		b.Node.Shared.TellStages = true
		b.Node.Shared.Logger = b.Node.Shared.Logger.With("model", b.Node.ModelName())
	}
	if len(s.Beside) > 0 {
		s.Node.Shared.Logger = s.Node.Shared.Logger.With("model", s.Node.ModelName())
	}
}

// tellModels says what is served.
func tellModels(e *cli.Env, s *cluster.Settings, models []*Cmd) {
	for i, p := range partsOf(s) {
		n := s.Node
		if i > 0 {
			n = s.Beside[i-1].Node
		}
		TellModel(e, p, n, models[i].ModelFlags, models[i].Listen)
	}
}

// partsOf returns the models of a process, with all of their experts.
func partsOf(s *cluster.Settings) []Part {
	parts := []Part{{&s.Services, s.Node.Shared.Model, s.Count, true}}
	for i := range s.Beside {
		parts = append(parts, Part{&s.Beside[i].Services, s.Beside[i].Node.Shared.Model, s.Beside[i].Count, true})
	}
	return parts
}

// shareOut sets the budgets of all models of a process, and refuses what cannot be served with them.
func shareOut(e *cli.Env, s *cluster.Settings) error {
	parts := partsOf(s)
	if err := ShareMemory(e, parts...); err != nil {
		return err
	}
	for _, p := range parts {
		if err := CheckServices(*p.Services, p.Model, p.Count); err != nil {
			return cli.Usage(err)
		}
	}
	return nil
}

// besideOf returns the names of the models beside the first one.
func besideOf(y *cluster.Cluster) (names []string) {
	for _, b := range y.Settings.Beside {
		names = append(names, b.Node.ModelName())
	}
	return names
}
