package fake

import (
	"slices"
	"time"
	"unsafe"

	"github.com/switchyard/switchyard/kernels/cuda"
)

// stream has a goroutine that does one thing after the other.
type stream struct {
	d       *Device
	queue   []func()
	ended   bool
	capture *capture // or nil
}

// NewStream starts one.
func (d *Device) NewStream() (cuda.Stream, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.ready("cuStreamCreate"); err != nil {
		return nil, err
	}
	s := &stream{d: d}
	d.streams[s] = true
	d.running.Go(s.run)
	return s, nil
}

func (s *stream) run() {
	for {
		s.d.mu.Lock()
		for len(s.queue) == 0 && !s.ended && !s.d.closed {
			s.d.changed.Wait()
		}
		if len(s.queue) == 0 {
			s.d.mu.Unlock()
			return
		}
		next := s.queue[0]
		s.queue = s.queue[1:]
		s.d.mu.Unlock()
		next()
	}
}

// give appends to the queue what a call of the driver asks for.
func (s *stream) give(call string, do func()) error {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	return s.put(call, do)
}

func (s *stream) put(call string, do func()) error {
	if err := s.d.ready(call); err != nil {
		return err
	}
	s.queue = append(s.queue, do)
	s.d.changed.Broadcast()
	return nil
}

func (s *stream) CopyIn(to cuda.Ptr, from []byte) error {
	if !s.d.isPinned(from) {
		return fault("cuMemcpyHtoDAsync", cuda.CodeInvalidValue)
	}
	return s.give("cuMemcpyHtoDAsync", func() {
		s.d.Faults.await(copies)
		s.d.work(func(m *Memory) { s.d.copied += int64(copy(m.Bytes(to, len(from)), from)) })
	})
}

func (s *stream) CopyOut(to []byte, from cuda.Ptr) error {
	if !s.d.isPinned(to) {
		return fault("cuMemcpyDtoHAsync", cuda.CodeInvalidValue)
	}
	return s.give("cuMemcpyDtoHAsync", func() {
		s.d.Faults.await(copies)
		s.d.work(func(m *Memory) { copy(to, m.Bytes(from, len(to))) })
	})
}

// Launch starts a kernel, some time later. Its parameters are copied at once.
func (s *stream) Launch(l *cuda.Launch) error {
	name := l.Kernel.Name()
	if code := s.d.Faults.launch(name); code != 0 {
		return fault("cuLaunchKernel", code)
	}
	now := *l
	now.Args = slices.Clone(l.Args)
	if s.captured(&now) {
		return nil
	}
	return s.give("cuLaunchKernel", func() { s.launched(&now) })
}

func (s *stream) launched(l *cuda.Launch) {
	name := l.Kernel.Name()
	s.d.Faults.await(name)
	if code := s.d.Faults.within(name); code != 0 {
		s.d.lose(fault("the kernel "+name, code))
		return
	}
	s.d.work(func(m *Memory) { s.d.kernels[name](m, l) })
}

func (s *stream) Record(e cuda.Event) error {
	ev := e.(*event) //nolint:errcheck // a driver's events are its own
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	mark := ev.behind + 1
	err := s.put("cuEventRecord", func() { ev.pass(mark) })
	if err == nil {
		ev.behind = mark
	}
	return err
}

func (s *stream) Close() error {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	s.ended = true
	delete(s.d.streams, s)
	s.d.changed.Broadcast()
	return s.d.lost
}

// work runs what a device does, unless it is lost. Streams do not overlap in it: a
// test's kernels need not be safe for that.
func (d *Device) work(do func(*Memory)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(illegal); !ok {
				panic(r)
			}
			d.loseLocked(fault("a kernel or a copy", cuda.CodeIllegalAddress))
		}
	}()
	if d.lost == nil {
		do(&d.memory)
	}
}

func (d *Device) lose(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.loseLocked(err)
}

func (d *Device) loseLocked(err error) {
	if d.lost == nil {
		d.lost = err
	}
	d.changed.Broadcast()
}

// isPinned reports whether all of b was pinned.
func (d *Device) isPinned(b []byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return slices.ContainsFunc(d.pinned, func(p *[]byte) bool {
		from := uintptr(unsafe.Pointer(unsafe.SliceData(*p)))
		return at >= from && at+uintptr(len(b)) <= from+uintptr(len(*p))
	})
}

// event counts how often it was recorded and passed.
type event struct {
	d              *Device
	behind, passed int
}

// NewEvent returns one that was never recorded.
func (d *Device) NewEvent() (cuda.Event, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &event{d: d}, d.ready("cuEventCreate")
}

func (e *event) pass(mark int) {
	e.d.mu.Lock()
	defer e.d.mu.Unlock()
	e.passed = max(e.passed, mark)
	e.d.changed.Broadcast()
}

// Wait returns when the event was passed, or the device is lost.
func (e *event) Wait() error {
	e.d.mu.Lock()
	defer e.d.mu.Unlock()
	if err := e.d.ready("cuEventSynchronize"); err != nil {
		return err
	}
	for e.passed < e.behind && e.d.lost == nil {
		e.d.changed.Wait()
	}
	return e.d.lost
}

func (e *event) Poll(time.Duration) (bool, error) {
	e.d.mu.Lock()
	defer e.d.mu.Unlock()
	if err := e.d.ready("cuEventQuery"); err != nil {
		return false, err
	}
	return e.passed >= e.behind, e.d.lost
}

func (e *event) Close() error { return nil }
