package cloud

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"

	gcs "cloud.google.com/go/storage"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"
	"gocloud.dev/blob"
	"gocloud.dev/blob/azureblob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/blob/s3blob"
	"gocloud.dev/gcp"
	"google.golang.org/api/option"
)

// ErrURL says that the URL of a store asks for what cannot be.
var ErrURL = errors.New("not the URL of a store")

// Schemes of the stores.
const (
	SchemeS3    = s3blob.Scheme
	SchemeGCS   = gcsblob.Scheme
	SchemeAzure = azureblob.Scheme
)

// Open opens what is below prefix in a bucket. It asks the store nothing yet. query
// holds the parameters that gocloud.dev's openers know, and for S3 and GCS also
// endpoint: where the service is when it is not the vendor's. An S3 endpoint is
// spoken to with the bucket in the path and without the checksums that only Amazon
// knows, unless the query says otherwise.
func Open(ctx context.Context, scheme, bucket, prefix string, query url.Values, o *Options) (*Driver, error) {
	open := map[string]func(context.Context, string, url.Values, *Options) (store, error){
		SchemeS3: openS3, SchemeGCS: openGCS, SchemeAzure: openAzure}[scheme]
	if open == nil {
		return nil, fmt.Errorf("%w: %s://", ErrURL, scheme)
	}
	own := url.Values{}
	for name, values := range query {
		own[name] = values
	}
	s, err := open(ctx, bucket, own, o)
	if err != nil {
		return nil, fmt.Errorf("open %s://%s: %w", scheme, bucket, err)
	}
	where := scheme + "://" + path.Join(bucket, prefix)
	if endpoint := query.Get("endpoint"); endpoint != "" {
		where += " at " + endpoint
	}
	return newDriver(s, where, prefix, o), nil
}

// taken removes a parameter from a query.
func taken(query url.Values, name string) string {
	v := query.Get(name)
	query.Del(name)
	return v
}

func openS3(ctx context.Context, bucket string, query url.Values, _ *Options) (store, error) {
	endpoint, style := taken(query, "endpoint"), taken(query, "use_path_style")
	pathStyle := endpoint != ""
	if style != "" {
		var err error
		if pathStyle, err = strconv.ParseBool(style); err != nil {
			return nil, fmt.Errorf("%w: use_path_style=%s: write true or false", ErrURL, style)
		}
	}
	if endpoint != "" {
		for _, name := range []string{"request_checksum_calculation", "response_checksum_validation"} {
			if !query.Has(name) {
				query.Set(name, "when_required")
			}
		}
	}
	b, err := new(s3blob.URLOpener).OpenBucketURL(ctx, &url.URL{Scheme: SchemeS3, Host: bucket, RawQuery: query.Encode()})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	var client *s3.Client
	if !b.As(&client) {
		return nil, errors.Join(errors.New("no client"), b.Close())
	}
	options := client.Options()
	options.Retryer = aws.NopRetryer{}
	options.Logger = logging.Nop{} // it would warn, on stderr, of what comes back as an error
	if endpoint != "" {
		options.BaseEndpoint = &endpoint
	}
	if options.UsePathStyle = pathStyle; options.Region == "" {
		if endpoint == "" {
			return nil, errors.Join(fmt.Errorf("%w: no region; write ?region=NAME, or set AWS_REGION", ErrURL), b.Close())
		}
		options.Region = "us-east-1" // what stores without regions take
	}
	return &s3Store{client: s3.New(options), bucket: bucket, closer: b}, nil
}

func openGCS(ctx context.Context, bucket string, query url.Values, o *Options) (store, error) {
	endpoint := taken(query, "endpoint")
	opener := &gcsblob.URLOpener{}
	client, err := gcsClient(ctx, endpoint, query)
	if err != nil {
		return nil, err
	}
	opener.Client = client
	if endpoint != "" {
		opener.Options.ClientOptions = append(opener.Options.ClientOptions, option.WithEndpoint(endpoint), gcs.WithJSONReads())
	}
	b, err := opener.OpenBucketURL(ctx, &url.URL{Scheme: SchemeGCS, Host: bucket, RawQuery: query.Encode()})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	var raw *gcs.Client
	if !b.As(&raw) {
		return nil, errors.Join(errors.New("no client"), b.Close())
	}
	chunk := defaultPart
	if o != nil && o.PartBytes > 0 {
		chunk = o.PartBytes
	}
	return &gcsStore{bucket: raw.Bucket(bucket), chunk: chunk, closer: b}, nil
}

// gcsClient finds the credentials where Google's own tools do. A stand-in gets none.
func gcsClient(ctx context.Context, endpoint string, query url.Values) (*gcp.HTTPClient, error) {
	if endpoint != "" || os.Getenv("STORAGE_EMULATOR_HOST") != "" || query.Get("anonymous") == "true" {
		return gcp.NewAnonymousHTTPClient(http.DefaultTransport), nil
	}
	creds, err := gcp.DefaultCredentials(ctx)
	if err != nil {
		return nil, fmt.Errorf("find Google's credentials: %w; set GOOGLE_APPLICATION_CREDENTIALS, or log in with gcloud", err)
	}
	return gcp.NewHTTPClient(http.DefaultTransport, gcp.CredentialsTokenSource(creds))
}

func openAzure(ctx context.Context, bucket string, query url.Values, _ *Options) (store, error) {
	b, err := blob.OpenBucket(ctx, (&url.URL{Scheme: SchemeAzure, Host: bucket, RawQuery: query.Encode()}).String())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	var client *container.Client
	if !b.As(&client) {
		return nil, errors.Join(errors.New("no client"), b.Close())
	}
	return &azureStore{container: client, closer: b}, nil
}
