package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/terminal"
	"github.com/switchyard/switchyard/services/switchyard/top"
)

// TopCmd shows what a model's services do.
type TopCmd struct {
	Model string `default:"demo" help:"Model to show." placeholder:"NAME"`
	Once  bool   `help:"Print one snapshot with everything in it and end, as in a pipe."`
	JSON  bool   `name:"json" help:"Print one snapshot as a JSON object and end."`

	Span time.Duration `default:"2s" help:"How long one snapshot waits at most for replicas to say twice what they have done, and for hosts to tell what their experts have computed; they do within about a second." placeholder:"TIME"`

	cli.ConnectFlags `embed:""`
}

const (
	topPause = time.Second
	// sizePause is how often the terminal's size is looked at.
	sizePause = 200 * time.Millisecond
)

// Run shows snapshots each second on a terminal, else one. It reads NATS only.
func (c *TopCmd) Run(ctx context.Context, e *cli.Env) error {
	if c.Span < 0 {
		return cli.Usage(fmt.Errorf("--span is %v; it must be 0 or more", c.Span))
	}
	conn, err := e.Connect(ctx, "top", c.ConnectFlags)
	if err != nil {
		return err
	}
	defer conn.Close()
	if c.Once || c.JSON || !terminal.Is(e.Out) {
		return cli.Explained(conn, c.once(ctx, e, conn))
	}
	return cli.Explained(conn, c.live(ctx, e, conn))
}

func (c *TopCmd) reader(e *cli.Env, conn *bus.Conn, model string) *top.Reader {
	return top.NewReader(conn.NATS(), conn.JetStream(), schemas.Streams{Subjects: schemas.NewSubjects(e.Prefix, model)})
}

// once looks twice: the first look asks the hosts for their experts' loads.
func (c *TopCmd) once(ctx context.Context, e *cli.Env, conn *bus.Conn) error {
	r := c.reader(e, conn, c.Model)
	defer r.Close()
	if _, err := r.Snapshot(ctx); err != nil {
		return err
	}
	r.Await(ctx, c.Span)
	if ctx.Err() != nil {
		return cli.ErrInterrupted
	}
	now, err := r.Snapshot(ctx)
	if err != nil {
		return err
	}
	return cli.Show(e, c.JSON, now, now.View(nil))
}

// live redraws until q or a signal, which is how it is meant to end.
func (c *TopCmd) live(ctx context.Context, e *cli.Env, conn *bus.Conn) (err error) {
	l := &liveTop{c: c, e: e, conn: conn, screen: top.NewScreen(), looks: make(chan looked, 1)}
	ctx, stop := context.WithCancel(ctx)
	l.begin(ctx, l.c.reader(e, conn, c.Model))
	if err := l.take(<-l.looks); err != nil { // on the page that stays
		stop()
		return err
	}
	defer l.close()
	defer stop() // before
	keys, restore, err := terminal.Keys(e.In)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, restore()) }()
	if l.page, err = terminal.OpenPage(e.Out); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.page.Close()) }()
	return l.run(ctx, keys)
}

// liveTop is what a person looks at.
type liveTop struct {
	c      *TopCmd
	e      *cli.Env
	conn   *bus.Conn
	screen *top.Screen
	page   *terminal.Page
	reader *top.Reader // of the model that is shown

	looks   chan looked
	looking bool // one comes on looks: keys are not to wait for a server

	now, before   *top.Snapshot
	trouble       error // of the last look
	width, height int
	drawn         []top.Line
}

// looked is how a look has ended.
type looked struct {
	by  *top.Reader
	now *top.Snapshot
	err error
}

func (l *liveTop) begin(ctx context.Context, r *top.Reader) {
	l.looking = true
	go func() {
		s, err := r.Snapshot(ctx)
		l.looks <- looked{r, s, err}
	}()
}

// take shows what a look has found. If it is the first of another model, that is shown from
// now on; without a snapshot the last one stays.
func (l *liveTop) take(look looked) error {
	l.looking = false
	l.trouble = look.err
	switch {
	case look.err != nil && look.by != l.reader:
		look.by.Close()
	case look.err != nil:
	case look.by == l.reader:
		l.now, l.before = look.now, l.now
	default:
		if l.reader != nil {
			l.reader.Close()
		}
		l.reader, l.now, l.before = look.by, look.now, nil
	}
	return look.err
}

func (l *liveTop) close() {
	if l.looking {
		_ = l.take(<-l.looks) // nobody looks any more
	}
	l.reader.Close()
}

func (l *liveTop) run(ctx context.Context, keys <-chan string) error {
	tick, size := time.NewTicker(topPause), time.NewTicker(sizePause)
	defer tick.Stop()
	defer size.Stop()
	for {
		if err := l.draw(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if !l.looking {
				l.begin(ctx, l.reader)
			}
		case look := <-l.looks:
			_ = l.take(look) // it is shown
		case <-size.C:
		case key, open := <-keys:
			switch {
			case !open:
				keys = nil
			case key == "q" || key == "Q" || key == terminal.Interrupted:
				return nil
			default:
				l.press(ctx, key)
			}
		}
	}
}

func (l *liveTop) press(ctx context.Context, key string) {
	switch {
	case key != terminal.Tab:
		l.screen.Press(key)
	case len(l.now.Others) > 0 && !l.looking:
		l.begin(ctx, l.c.reader(l.e, l.conn, nextModel(l.now.Model, l.now.Others)))
	}
}

// nextModel returns the one after this, by name, and after the last one the first.
func nextModel(this string, others []string) string {
	for _, other := range others { // they are sorted
		if other > this {
			return other
		}
	}
	return slices.Min(others)
}

// draw draws the page, unless it is as it was.
func (l *liveTop) draw() error {
	width, height := terminal.Size(l.e.Out)
	page := l.screen.Look(l.now, l.before, l.trouble, width, height)
	if slices.Equal(page, l.drawn) && width == l.width && height == l.height {
		return nil
	}
	l.width, l.height, l.drawn = width, height, page
	lines := make([]string, len(page))
	for i := range page {
		lines[i] = page[i].Text
	}
	return l.page.Draw(lines, func(i int) bool { return page[i].Loud })
}
