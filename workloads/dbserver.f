# Database server of the nested-file-system study (FAST '12, table 3): 8 files of 1 GB, 200 threads, operations of 2 KB.
# As in Filebench's oltp, which models Oracle 9i: 200 readers, who wait when they are too far ahead of the ten writers and of the
# one who writes the log synchronously. The 200 threads of the table are the readers.

set $dir=/tmp
set $nfiles=8
set $filesize=1g
set $logsize=10m
set $iosize=2k
set $logiosize=256k
set $nthreads=200
set $nwriters=10
set $think=200000
set $runtime=60

define fileset name=tables,path=$dir,entries=$nfiles,size=$filesize,dirwidth=1024,dirgamma=0,prealloc=100,paralloc
define fileset name=log,path=$dir,entries=1,size=$logsize,dirwidth=1024,dirgamma=0,prealloc=100

define process name=logwriter
{
  thread name=logwriter
  {
    flowop aiowrite name=log-write,filesetname=log,iosize=$logiosize,random,dsync
    flowop aiowait name=log-wait
    flowop semblock name=log-block,value=3200,highwater=1000
  }
}

define process name=dbwriter,instances=$nwriters
{
  thread name=dbwriter
  {
    flowop aiowrite name=table-write,filesetname=tables,iosize=$iosize,random,dsync,opennext,iters=100
    flowop hog name=writer-think,value=10000
    flowop semblock name=table-block,value=1000,highwater=2000
    flowop aiowait name=table-wait
  }
}

define process name=reader
{
  thread name=reader,instances=$nthreads
  {
    flowop read name=table-read,filesetname=tables,iosize=$iosize,random,opennext
    flowop hog name=reader-think,value=$think
    flowop sempost name=post-log,value=1,target=log-block,blocking
    flowop sempost name=post-tables,value=1,target=table-block,blocking
  }
}

run $runtime
