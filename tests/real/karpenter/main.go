// Program karpenter is Karpenter with its kwok provider, and with the faults of a real cloud that kwok does not show.
//
// The file that FAULTS_FILE_PATH names is read anew at each launch, so a test changes it while this runs; a file that
// is not there is no fault. Nodes begin without their GPUs: a KWOK stage adds what the annotation below promises.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

const (
	gpus     = corev1.ResourceName("nvidia.com/gpu")
	promised = "stage.headroom.dev/gpus"
)

// Where names offerings; an empty field stands for all.
type Where struct {
	InstanceType string `json:"instanceType"`
	Zone         string `json:"zone"`
	CapacityType string `json:"capacityType"`
}

func (w Where) matches(instanceType string, offering *cloudprovider.Offering) bool {
	return (w.InstanceType == "" || w.InstanceType == instanceType) &&
		(w.Zone == "" || w.Zone == offering.Zone()) &&
		(w.CapacityType == "" || w.CapacityType == offering.CapacityType())
}

// Faults are what goes wrong from now on.
type Faults struct {
	// Insufficient has no capacity: a launch there tries the claim's other offerings and fails without any.
	Insufficient []Where `json:"insufficient"`
	// HideSeconds is how long an offering without capacity is not offered again; the provider of AWS does so for 180.
	HideSeconds float64 `json:"hideSeconds"`
	// LaunchError fails every launch with these words, as missing permissions do.
	LaunchError string `json:"launchError"`
}

// Provider is the kwok provider with faults.
type Provider struct {
	*kwok.CloudProvider
	nodes  client.Client
	types  []*cloudprovider.InstanceType
	path   string
	mu     sync.Mutex
	hidden map[Where]time.Time
}

// Create launches on an offering that has capacity.
func (p *Provider) Create(ctx context.Context, claim *v1.NodeClaim) (*v1.NodeClaim, error) {
	faults, err := p.faults()
	if err != nil {
		return nil, err
	}
	if faults.LaunchError != "" {
		return nil, cloudprovider.NewCreateError(errors.New(faults.LaunchError), "LaunchFailed", faults.LaunchError)
	}
	types := p.offered()
	requirements := scheduling.NewNodeSelectorRequirementsWithMinValues(claim.Spec.Requirements...)
	wanted := requirements.Get(corev1.LabelInstanceTypeStable)
	var can, without []string
	for _, each := range types {
		if !wanted.Has(each.Name) {
			continue
		}
		for _, offering := range each.Offerings.Available().Compatible(requirements) {
			if slices.ContainsFunc(faults.Insufficient, func(w Where) bool { return w.matches(each.Name, offering) }) {
				offering.Available = false
				without = append(without, p.hide(each.Name, offering, faults.HideSeconds))
			}
		}
		if each.Offerings.Available().HasCompatible(requirements) {
			can = append(can, each.Name)
		}
	}
	if len(can) == 0 {
		return nil, cloudprovider.NewInsufficientCapacityError(fmt.Errorf("no capacity: %s", strings.Join(without, ", ")))
	}
	claim = claim.DeepCopy()
	for at := range claim.Spec.Requirements {
		if claim.Spec.Requirements[at].Key == corev1.LabelInstanceTypeStable {
			claim.Spec.Requirements[at].Values = can
		}
	}
	created, err := kwok.NewCloudProvider(ctx, p.nodes, types).Create(ctx, claim)
	if err != nil {
		return nil, err
	}
	for _, each := range types {
		if each.Name == created.Labels[corev1.LabelInstanceTypeStable] {
			created.Status.Capacity = each.Capacity // kwok has what was asked for, others have all there is
		}
	}
	return created, nil
}

// GetInstanceTypes returns all types, without the offerings that failed a moment ago.
func (p *Provider) GetInstanceTypes(context.Context, *v1.NodePool) ([]*cloudprovider.InstanceType, error) {
	return p.offered(), nil
}

func (p *Provider) offered() []*cloudprovider.InstanceType {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := make([]*cloudprovider.InstanceType, 0, len(p.types))
	for _, each := range p.types {
		own := &cloudprovider.InstanceType{}
		each.DeepCopyInto(own)
		for _, offering := range own.Offerings {
			if time.Now().Before(p.hidden[whereOf(own.Name, offering)]) {
				offering.Available = false
			}
		}
		found = append(found, own)
	}
	return found
}

func (p *Provider) hide(instanceType string, offering *cloudprovider.Offering, seconds float64) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	where := whereOf(instanceType, offering)
	p.hidden[where] = time.Now().Add(time.Duration(seconds * float64(time.Second)))
	return strings.Join([]string{where.InstanceType, where.Zone, where.CapacityType}, "/")
}

func (p *Provider) faults() (Faults, error) {
	found := Faults{}
	text, err := os.ReadFile(p.path)
	if errors.Is(err, os.ErrNotExist) {
		return found, nil
	}
	if err != nil {
		return found, err
	}
	return found, json.Unmarshal(text, &found)
}

func whereOf(instanceType string, offering *cloudprovider.Offering) Where {
	return Where{instanceType, offering.Zone(), offering.CapacityType()}
}

// Late is a client that makes nodes whose GPUs are not there yet.
type Late struct{ client.Client }

// Create takes the GPUs off a node and promises them.
func (l Late) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	node, ok := object.(*corev1.Node)
	if !ok {
		return l.Client.Create(ctx, object, options...)
	}
	late := node.DeepCopy()
	if count, has := late.Status.Allocatable[gpus]; has {
		late.Annotations[promised] = count.String()
	}
	delete(late.Status.Allocatable, gpus)
	late.Status.Capacity = late.Status.Allocatable.DeepCopy()
	return l.Client.Create(ctx, late, options...)
}

func main() {
	ctx, op := operator.NewOperator()
	types, err := kwok.ConstructInstanceTypes(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "no instance types")
		os.Exit(1)
	}
	provider := &Provider{
		CloudProvider: kwok.NewCloudProvider(ctx, op.GetClient(), types),
		nodes:         Late{op.GetClient()},
		types:         types,
		path:          os.Getenv("FAULTS_FILE_PATH"),
		hidden:        map[Where]time.Time{},
	}
	decorated := overlay.Decorate(provider, op.GetClient(), op.InstanceTypeStore)
	cluster := state.NewCluster(op.Clock, op.GetClient(), decorated)
	op.WithControllers(ctx, controllers.NewControllers(
		ctx, op.Manager, op.Clock, op.GetClient(), op.EventRecorder, decorated, provider, cluster, op.InstanceTypeStore,
	)...).Start(ctx)
}
