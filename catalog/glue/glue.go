// Package glue speaks to the data catalog of AWS Glue, which Athena, EMR and Spark on
// AWS read. Credentials come from where AWS's own tools find them.
package glue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/glue"
	"github.com/aws/aws-sdk-go-v2/service/glue/types"

	"github.com/couch2hudi/couch2hudi/catalog"
)

// Options say which data catalog. The zero value is that of the environment's account
// and region.
type Options struct {
	// Region is AWS's, such as eu-west-1.
	Region string
	// Endpoint is another server than AWS's own.
	Endpoint string
	// Profile is one of AWS's shared config file.
	Profile string
	// Catalog is the account's number, of another account than that of the credentials.
	Catalog string
	// Timeout is how long one request may take; default 1 min. The SDK tries it again.
	Timeout time.Duration
}

// How many partitions Glue's requests hold, at most.
const (
	mostCreated = 100
	mostUpdated = 100
	mostDeleted = 25
	mostGot     = 1000
)

// Kinds of tables.
const (
	kindExternal = "EXTERNAL_TABLE"
	kindManaged  = "MANAGED_TABLE"
	kindView     = "VIRTUAL_VIEW"
)

// Store is Glue's data catalog. The SDK tries again what may be tried again.
type Store struct {
	c  *glue.Client
	id *string
}

// Open makes a Store. It asks nothing of Glue yet.
func Open(ctx context.Context, o Options) (*Store, error) {
	const patience = time.Minute
	if o.Timeout <= 0 {
		o.Timeout = patience
	}
	// The SDK's own client waits for an answer for ever.
	with := []func(*awsconfig.LoadOptions) error{awsconfig.WithHTTPClient(awshttp.NewBuildableClient().WithTimeout(o.Timeout))}
	if o.Region != "" {
		with = append(with, awsconfig.WithRegion(o.Region))
	}
	if o.Profile != "" {
		with = append(with, awsconfig.WithSharedConfigProfile(o.Profile))
	}
	c, err := awsconfig.LoadDefaultConfig(ctx, with...)
	if err != nil {
		return nil, fmt.Errorf("read AWS's config: %w", err)
	}
	if c.Region == "" {
		return nil, errors.New("glue:// names no region, and AWS_REGION does not: write glue://eu-west-1/database.table")
	}
	s := &Store{c: glue.NewFromConfig(c, func(g *glue.Options) {
		if o.Endpoint != "" {
			g.BaseEndpoint = aws.String(o.Endpoint)
		}
	})}
	if o.Catalog != "" {
		s.id = aws.String(o.Catalog)
	}
	return s, nil
}

// told is an error of Glue in catalog's words.
func told(err error) error {
	if none, ok := errors.AsType[*types.EntityNotFoundException](err); ok {
		return fmt.Errorf("%w: %s", catalog.ErrNotExist, aws.ToString(none.Message))
	}
	if there, ok := errors.AsType[*types.AlreadyExistsException](err); ok {
		return fmt.Errorf("%w: %s", catalog.ErrExist, aws.ToString(there.Message))
	}
	if err != nil {
		return fmt.Errorf("glue: %w", err)
	}
	return nil
}

// Close does nothing: there is no connection.
func (s *Store) Close() error { return nil }

// HasDatabase says whether there is a database.
func (s *Store) HasDatabase(ctx context.Context, database string) (bool, error) {
	_, err := s.c.GetDatabase(ctx, &glue.GetDatabaseInput{CatalogId: s.id, Name: &database})
	if err = told(err); errors.Is(err, catalog.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// CreateDatabase makes one.
func (s *Store) CreateDatabase(ctx context.Context, database string) error {
	_, err := s.c.CreateDatabase(ctx, &glue.CreateDatabaseInput{CatalogId: s.id,
		DatabaseInput: &types.DatabaseInput{Name: &database, Description: aws.String("made by couch2hudi")}})
	if err = told(err); errors.Is(err, catalog.ErrExist) {
		return nil
	}
	return err
}

// Table is the table or view of that name.
func (s *Store) Table(ctx context.Context, database, name string) (catalog.Table, error) {
	r, err := s.c.GetTable(ctx, &glue.GetTableInput{CatalogId: s.id, DatabaseName: &database, Name: &name})
	if err != nil {
		return catalog.Table{}, told(err)
	}
	return tableOf(r.Table), nil
}

// Create makes a table, or a view.
func (s *Store) Create(ctx context.Context, database string, t catalog.Table) error {
	_, err := s.c.CreateTable(ctx, &glue.CreateTableInput{CatalogId: s.id, DatabaseName: &database, TableInput: input(&t)})
	return told(err)
}

// Alter replaces what Glue says of a table. Glue has columns for each partition, too:
// where they differ from the table's, those of the partitions are replaced.
func (s *Store) Alter(ctx context.Context, database string, t catalog.Table) error {
	r, err := s.c.GetTable(ctx, &glue.GetTableInput{CatalogId: s.id, DatabaseName: &database, Name: &t.Name})
	if err != nil {
		return told(err)
	}
	n := input(&t)
	n.Description, n.Owner, n.Retention = r.Table.Description, r.Table.Owner, r.Table.Retention
	if len(t.Partitioned) > 0 && !equalColumns(columns(r.Table.StorageDescriptor), t.Columns) {
		// First, so that a sync that dies between finds the table's columns old, and
		// comes here again.
		if err := s.cascade(ctx, database, t); err != nil {
			return err
		}
	}
	// A version for each commit would fill the quota of versions.
	_, err = s.c.UpdateTable(ctx, &glue.UpdateTableInput{CatalogId: s.id, DatabaseName: &database, TableInput: n, SkipArchive: aws.Bool(true)})
	return told(err)
}

func (s *Store) cascade(ctx context.Context, database string, t catalog.Table) error {
	all, err := s.Partitions(ctx, database, t)
	if err != nil {
		return err
	}
	return s.MovePartitions(ctx, database, t, all)
}

// Drop forgets a table or a view.
func (s *Store) Drop(ctx context.Context, database, name string) error {
	_, err := s.c.DeleteTable(ctx, &glue.DeleteTableInput{CatalogId: s.id, DatabaseName: &database, Name: &name})
	if err = told(err); errors.Is(err, catalog.ErrNotExist) {
		return nil
	}
	return err
}

// Partitions are all that a table has, or those of the given values that it has.
func (s *Store) Partitions(ctx context.Context, database string, t catalog.Table, values ...string) (all []catalog.Partition, err error) {
	take := func(list []types.Partition) {
		for _, p := range list {
			one := catalog.Partition{Value: strings.Join(p.Values, "/")}
			if p.StorageDescriptor != nil {
				one.Location = aws.ToString(p.StorageDescriptor.Location)
			}
			all = append(all, one)
		}
	}
	if len(values) == 0 {
		pages := glue.NewGetPartitionsPaginator(s.c, &glue.GetPartitionsInput{CatalogId: s.id, DatabaseName: &database, TableName: &t.Name, ExcludeColumnSchema: aws.Bool(true)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, told(err)
			}
			take(page.Partitions)
		}
		return all, nil
	}
	for _, some := range catalog.Batches(values, mostGot) {
		r := &glue.BatchGetPartitionInput{CatalogId: s.id, DatabaseName: &database, TableName: &t.Name}
		for _, v := range some {
			r.PartitionsToGet = append(r.PartitionsToGet, types.PartitionValueList{Values: []string{v}})
		}
		for len(r.PartitionsToGet) > 0 {
			got, err := s.c.BatchGetPartition(ctx, r)
			if err != nil {
				return nil, told(err)
			}
			take(got.Partitions)
			if len(got.UnprocessedKeys) >= len(r.PartitionsToGet) {
				return nil, errors.New("glue reads none of the partitions that were asked for: try again later")
			}
			r.PartitionsToGet = got.UnprocessedKeys
		}
	}
	return all, nil
}

// AddPartitions adds those that are not there.
func (s *Store) AddPartitions(ctx context.Context, database string, t catalog.Table, list []catalog.Partition) error {
	for _, some := range catalog.Batches(list, mostCreated) {
		r := &glue.BatchCreatePartitionInput{CatalogId: s.id, DatabaseName: &database, TableName: &t.Name}
		for _, p := range some {
			r.PartitionInputList = append(r.PartitionInputList, partition(&t, p))
		}
		got, err := s.c.BatchCreatePartition(ctx, r)
		if err != nil {
			return told(err)
		}
		if err := refused(got.Errors, "AlreadyExistsException"); err != nil {
			return err
		}
	}
	return nil
}

// MovePartitions gives partitions their locations, and the table's columns.
func (s *Store) MovePartitions(ctx context.Context, database string, t catalog.Table, list []catalog.Partition) error {
	for _, some := range catalog.Batches(list, mostUpdated) {
		r := &glue.BatchUpdatePartitionInput{CatalogId: s.id, DatabaseName: &database, TableName: &t.Name}
		for _, p := range some {
			n := partition(&t, p)
			r.Entries = append(r.Entries, types.BatchUpdatePartitionRequestEntry{PartitionValueList: n.Values, PartitionInput: &n})
		}
		got, err := s.c.BatchUpdatePartition(ctx, r)
		if err != nil {
			return told(err)
		}
		for _, e := range got.Errors {
			if err := refusal(e.PartitionValueList, e.ErrorDetail, "EntityNotFoundException"); err != nil {
				return err
			}
		}
	}
	return nil
}

// DropPartitions forgets partitions.
func (s *Store) DropPartitions(ctx context.Context, database string, t catalog.Table, values []string) error {
	for _, some := range catalog.Batches(values, mostDeleted) {
		r := &glue.BatchDeletePartitionInput{CatalogId: s.id, DatabaseName: &database, TableName: &t.Name}
		for _, v := range some {
			r.PartitionsToDelete = append(r.PartitionsToDelete, types.PartitionValueList{Values: []string{v}})
		}
		got, err := s.c.BatchDeletePartition(ctx, r)
		if err != nil {
			return told(err)
		}
		if err := refused(got.Errors, "EntityNotFoundException"); err != nil {
			return err
		}
	}
	return nil
}

// refused is the first error of a batch that is not the one that does not matter.
func refused(all []types.PartitionError, but string) error {
	for _, e := range all {
		if err := refusal(e.PartitionValues, e.ErrorDetail, but); err != nil {
			return err
		}
	}
	return nil
}

func refusal(values []string, d *types.ErrorDetail, but string) error {
	if d == nil || aws.ToString(d.ErrorCode) == but {
		return nil
	}
	return fmt.Errorf("glue refuses the partition %s: %s: %s", strings.Join(values, "/"), aws.ToString(d.ErrorCode), aws.ToString(d.ErrorMessage))
}
