package config

import (
	"errors"
	"strings"
	"time"
)

// Produce says into which topic a database is written. Only produce looks at it.
type Produce struct {
	// To is kafka://broker:9092,broker:9092/topic; it may hold a password, hence a
	// Secret.
	To Secret `yaml:"to"`
	// Interval is how long changes are gathered into one transaction, after the
	// first.
	Interval Duration `yaml:"interval"`
	// Partitions, Replication and Topic are for a topic that does not exist: how
	// many partitions, how many copies (0 for what the brokers have as default),
	// and settings of the topic.
	Partitions  int               `yaml:"partitions"`
	Replication int               `yaml:"replication"`
	Topic       map[string]string `yaml:"topic"`
}

const fieldProduce = "produce."

func defaultProduce() Produce {
	const partitions = 16 // as many as a bucket table has buckets
	return Produce{Interval: Duration(time.Second), Partitions: partitions}
}

func (p *Produce) resolve() error {
	text, err := resolve(p.To.Reveal())
	if err != nil {
		return &FieldError{Field: fieldProduce + "to", Err: err}
	}
	p.To = Secret(text)
	return nil
}

// Validate is Config.Validate for this part, and returns the topic's URL. It is
// asked by produce alone.
func (p *Produce) Validate() (SourceURL, error) {
	if p.To == "" {
		return SourceURL{}, &FieldError{Field: fieldProduce + "to", Err: ErrRequired}
	}
	if !strings.HasPrefix(p.To.Reveal(), KindKafka+"://") {
		return SourceURL{}, wrong(fieldProduce+"to", "write kafka://broker:9092,broker:9092/topic")
	}
	u, err := ParseSourceURL(p.To)
	var field *FieldError
	if errors.As(err, &field) {
		err = &FieldError{Field: fieldProduce + "to", Err: field.Err}
	}
	const shortest, longest = 10 * time.Millisecond, 30 * time.Second
	const copies, most = 15, 10_000
	return u, errors.Join(err, between(fieldProduce+"interval", p.Interval, Duration(shortest), Duration(longest)),
		between(fieldProduce+"partitions", p.Partitions, 1, most), between(fieldProduce+"replication", p.Replication, 0, copies))
}
