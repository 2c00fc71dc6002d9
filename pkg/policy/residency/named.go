package residency

import (
	"fmt"
	"strings"
)

// named are the orders that an operator can name. Belady's is none of them: it knows what comes.
var named = []struct {
	name    string
	outlook bool // it goes by one
	of      func(*Outlook) Order
}{
	{"lru", false, func(*Outlook) Order { return LRU{} }},
	{"lfu", true, func(o *Outlook) Order { return LFU{Outlook: o} }},
	{"fmoe", true, func(o *Outlook) Order { return FMoE{o} }},
	{"next-use", true, func(o *Outlook) Order { return NextUse{Outlook: o} }},
}

// Names are the orders that Named knows.
func Names() (names []string) {
	for _, one := range named {
		names = append(names, one.name)
	}
	return names
}

// NeedsOutlook says whether the order of a name goes by an outlook.
func NeedsOutlook(name string) bool {
	for _, one := range named {
		if one.name == name {
			return one.outlook
		}
	}
	return false
}

// Named is the order of a name; o is what it goes by, if it needs that. The error says which names there are.
func Named(name string, o *Outlook) (Order, error) {
	for _, one := range named {
		if one.name == name {
			return one.of(o), nil
		}
	}
	return nil, fmt.Errorf("there is no order of eviction %q; there is %s", name, strings.Join(Names(), ", "))
}
