package hdfs

import (
	"context"
	"time"
)

// SetSleep has d wait by other means than time, for tests.
func (d *Driver) SetSleep(f func(context.Context, time.Duration) error) { d.retry.sleep = f }
