package service

import (
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/pkg/transport/catalog"
)

// all are the registered descriptors.
var all []Descriptor

// Register adds services here and to the catalog, which says what is wrong with one
// (catalog.Problems). Tests take back what they add.
func Register(services ...Descriptor) (undo func()) {
	before := all
	var others []func()
	for _, d := range services {
		others = append(others, catalog.Register(d.Service))
		if _, known := catalog.Find(d.Name); known && (d.New != nil || d.Bare != nil) {
			all = append(slices.Clip(all), d)
		}
	}
	return func() {
		all = before
		for _, undo := range slices.Backward(others) {
			undo()
		}
	}
}

// All are the services that a process can run, in the order of the catalog.
func All() (list []Descriptor) {
	for _, s := range catalog.All() {
		if d, err := Find(s.Name); err == nil {
			list = append(list, d)
		}
	}
	return list
}

// Find is the service of a name. The error says that there is none.
func Find(name string) (Descriptor, error) {
	at := slices.IndexFunc(all, func(d Descriptor) bool { return d.Name == name })
	if at < 0 {
		return Descriptor{}, fmt.Errorf("there is no service %.64q in this program; there are %v", name, catalog.Names())
	}
	return all[at], nil
}
